// Which results of a layer differ by themselves between a whole sequence and its tokens decoded alone? What is made of a result
// that differs differs too, and says nothing of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "nsa/base/safetensors.h"

namespace harness::checks {

struct DecodedStage {
  const char* tensor;  // of kSteps
  const char* op;      // that makes it
  const char* branch;  // "" where it belongs to all
  const char* whole;   // of kPrefill
};

struct DifferingStages {
  std::vector<DecodedStage>
      first;  // that differ though nothing that they are made of does: one of an operation
  std::vector<DecodedStage>
      hidden;  // that are made of one that differs: theirs could not be compared
};

// In the order of computation. A stage differs with an element that is off by more than `limit` times the largest of the whole
// sequence, or of another shape; of blocks, one that is not the same. Rows are those from token `prompt` on; of compressed
// tokens all. What the caches hold in the end is that of the last tokens: where it differs though it was right when it was made,
// the cache has changed it; where it was made wrong, the cache is compared with what was made. Throws: nsa::Error where a tensor
// is of another dtype.
[[nodiscard]] DifferingStages differing_stages(const nsa::SafetensorsFile& whole,
                                               const nsa::SafetensorsFile& steps,
                                               std::int64_t prompt,
                                               double limit);

}  // namespace harness::checks
