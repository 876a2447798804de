// LibTorch's element types as those of safetensors files.
#pragma once

#include <string>

#include "nsa/base/error.h"
#include "nsa/base/safetensors.h"
#include "nsa/torch.h"

namespace nsa {

// Throws: Error for a type that no file of ours holds.
[[nodiscard]] inline DType stored_dtype(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat64: return DType::f64;
    case torch::kFloat32: return DType::f32;
    case torch::kFloat16: return DType::f16;
    case torch::kBFloat16: return DType::bf16;
    case torch::kInt64: return DType::i64;
    case torch::kInt32: return DType::i32;
    case torch::kUInt8: return DType::u8;
    default: throw Error(std::string("tensor file: cannot store ") + c10::toString(type));
  }
}

}  // namespace nsa
