// In the place of the kernels where there was no nvcc to build them.
#include "nsa/seams/cuda/cuda.h"
#include "nsa/seams/cuda/norm.h"
#include "nsa/seams/refused.h"

namespace nsa::cuda {
namespace {

constexpr const char* kReason = "anything: its kernels were not built, because there was no nvcc";

}  // namespace

std::string unsupported_norm(std::int64_t /*width*/, const Surroundings& /*where*/) {
  return kReason;
}

torch::Tensor norm(const torch::Tensor& /*x*/, const torch::Tensor& /*weight*/, int layer) {
  throw Refused("norm", kNames[0], kReason, layer);
}

std::vector<Implementation> implementations() {
  const auto unsupported = [](const ModelConfig&, const Surroundings*) -> std::string {
    return kReason;
  };
  std::vector<Implementation> rows;
  for (const char* name : kNames) {
    for (const char* seam : kSeams) rows.push_back({seam, name, unsupported, nullptr});
  }
  return rows;
}

}  // namespace nsa::cuda
