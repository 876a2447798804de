#include "nsa/seams/cuda/device.h"

#include <ATen/cuda/CUDAContext.h>

namespace nsa::cuda {

std::string unsupported_device(const torch::Device& device) {
  return device.is_cuda() ? "" : "device " + device.str() + ": its kernels are for CUDA";
}

int compute_capability(const torch::Device& device) {
  const auto* card = at::cuda::getDeviceProperties(device.has_index() ? device.index()
                                                                      : at::cuda::current_device());
  return 10 * card->major + card->minor;
}

kernels::Stream current_stream(const torch::Device& device) {
  return at::cuda::getCurrentCUDAStream(device.index()).stream();
}

}  // namespace nsa::cuda
