// The layout of a safetensors file, for all that write one: at once (write_safetensors) or tensor by tensor in any order
// (the files of a rank).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "nsa/base/safetensors.h"

namespace nsa {

// A tensor of a file before its bytes are there.
struct TensorPlan {
  std::string name;
  DType dtype = DType::f64;
  std::vector<std::int64_t> shape;
};

// How a file begins, and where its tensors lie: one after the other, in the order given. The head is its length and its
// JSON, padded to a multiple of 8 bytes.
struct SafetensorsLayout {
  std::string head;
  std::vector<std::uint64_t> offsets;  // of each tensor, from the beginning of the file
  std::uint64_t bytes = 0;             // of the whole file
};
// `file` is only named in messages. Throws Error where a shape has no size, a name comes twice or the head is too long to
// be read.
[[nodiscard]] SafetensorsLayout lay_out_safetensors(
    std::span<const TensorPlan> tensors,
    const std::map<std::string, std::string>& metadata,
    const std::string& file);

}  // namespace nsa
