#include "nsa/train/precision.h"

namespace nsa {

torch::Dtype dtype_of(Precision precision) {
  switch (precision) {
    case Precision::fp64: return torch::kFloat64;
    case Precision::fp32:
    case Precision::bf16_autocast: return torch::kFloat32;
    case Precision::bf16:
    case Precision::bf16_pure: return torch::kBFloat16;
    case Precision::fp16:
    case Precision::fp16_pure: return torch::kFloat16;
  }
  TORCH_CHECK(false, "unknown precision");
}

}  // namespace nsa
