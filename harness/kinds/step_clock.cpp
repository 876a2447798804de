#include "harness/kinds/step_clock.h"

#ifdef NSA_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace harness {

void wait_for(const torch::Device& device) {
#ifdef NSA_CUDA
  if (device.is_cuda()) {
    c10::cuda::device_synchronize();
  }
#else
  (void)device;
#endif
}

void StepClock::start() {
  wait_for(device_);
  begin_ = std::chrono::steady_clock::now();
}

double StepClock::elapsed_ms() const {
  wait_for(device_);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_)
      .count();
}

}  // namespace harness
