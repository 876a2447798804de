// What the kernels need to know of a device. The tests bring other definitions, with which the kernels run on the host.
#pragma once

#include "nsa/kernels/attention.h"
#include "nsa/torch.h"

namespace nsa::cuda {

// "" where kernels run on this device, else why not.
[[nodiscard]] std::string unsupported_device(const torch::Device& device);
// 90 for 9.0.
[[nodiscard]] int compute_capability(const torch::Device& device);
// The stream that LibTorch launches on now.
[[nodiscard]] kernels::Stream current_stream(const torch::Device& device);

}  // namespace nsa::cuda
