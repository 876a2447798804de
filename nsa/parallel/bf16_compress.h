// A communication hook that sends gradients as bfloat16: half the bytes, eight bits of mantissa. What torch's
// bf16_compress_hook does: round, divide by world, sum over the ranks in bfloat16, widen again.
#pragma once

#include "nsa/parallel/communicator.h"
#include "nsa/parallel/data_parallel.h"

namespace nsa {

// `communicator` and `routes` outlive what it returns. Counts itself as grad_sync "bf16".
[[nodiscard]] ReduceBucket bf16_compressed(Communicator& communicator, Routes& routes);

}  // namespace nsa
