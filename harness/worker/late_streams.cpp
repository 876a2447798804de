#include "harness/worker/late_streams.h"

#include <ATen/record_function.h>
#include <torch/cuda.h>

#ifdef NSA_CUDA
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace harness {

#ifdef NSA_CUDA
namespace {

constexpr std::int64_t kCycles = 40'000'000;  // 20 ms at 2 GHz
constexpr int kStreamsOfAPool = 32;           // LibTorch hands them out in turn

}  // namespace

void make_late(Late late, const torch::Device& device) {
  if (!device.is_cuda() || late == Late::nobody) return;
  if (late == Late::current_stream) {
    at::cuda::sleep(kCycles);
    return;
  }
  for (const bool high_priority : {false, true}) {
    for (int i = 0; i < kStreamsOfAPool; ++i) {
      const c10::cuda::CUDAStreamGuard guard(
          c10::cuda::getStreamFromPool(high_priority, device.index()));
      at::cuda::sleep(kCycles);
    }
  }
}
#else
void make_late(Late /*late*/, const torch::Device& /*device*/) {}
#endif

struct InSeries::Callback {
  Callback()
      : handle(at::addGlobalCallback(
            at::RecordFunctionCallback(nullptr, &wait).scopes({at::RecordScope::FUNCTION}))) {}
  ~Callback() { at::removeCallback(handle); }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  static void wait(const at::RecordFunction& /*function*/, at::ObserverContext* /*context*/) {
    torch::cuda::synchronize();
  }

  at::CallbackHandle handle;
};

InSeries::InSeries(const torch::Device& device) {
  if (device.is_cuda()) callback_ = std::make_unique<Callback>();
}

InSeries::~InSeries() = default;

}  // namespace harness
