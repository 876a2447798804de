// The file in which a rank of a training of the user's own keeps its last steps, tensor by tensor.
//
// The file, rank_N/steps.ring in the case's folder: "NSARING1"; u64 offset of the first slot, bytes of a slot, number of slots,
// bytes of the JSON that follows; {"classes": [{"name": "gradients", "tensors": [NAME, ...]}, ...]}. Slot `step % slots`: u64 step
// (0 while it is written), u64 reductions, and for each tensor of each class u64 fingerprint, u64 flags (1: an infinity, 2: a NaN,
// 4: not read), f64 sum of squares. Little-endian.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/evidence/rows.h"

namespace harness {

[[nodiscard]] std::string ring_path(const std::string& case_folder, int rank);

// By tensor of a class (tensor_classes.h), its fingerprint and state. Nothing where there is no file, or it does not hold the step.
[[nodiscard]] std::optional<std::map<std::string, TensorDigest>> read_ring(const std::string& path,
                                                                           std::int64_t step,
                                                                           const std::string& of);

}  // namespace harness
