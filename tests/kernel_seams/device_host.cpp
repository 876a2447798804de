// The kernels' seams on the host: the kernels run emulated on the CPU's tensors.
#include "nsa/seams/cuda/device.h"

namespace nsa::cuda {

std::string unsupported_device(const torch::Device& device) {
  return device.is_cpu() ? "" : "device " + device.str();
}

int compute_capability(const torch::Device& /*device*/) {
  return 80;
}

kernels::Stream current_stream(const torch::Device& /*device*/) {
  return nullptr;
}

}  // namespace nsa::cuda
