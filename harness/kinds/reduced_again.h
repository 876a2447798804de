// The last step's backward and its reduction, done again while the streams of the card come in another order: in series, twice, as
// it is, with the current stream late, with the others late. Each gradient's bits are recorded after the reduction. The ledger does
// not look on: it would wait for the device in front of the reducer. On a CPU the five are the same.
#pragma once

#include "harness/kinds/training_parts.h"

namespace harness {

// After the last step. Does nothing where `repeats_equal` is not asked for.
void reduce_again(Session& session,
                  TrainingParts& parts,
                  nsa::DataParallel& parallel,
                  std::int64_t step);

}  // namespace harness
