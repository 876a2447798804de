#include "harness/worker/watch/late_streams.h"

#include <chrono>
#include <mutex>

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

void wait_for_current_stream(const torch::Device& device) {
  c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
}

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
namespace {

void wait_for_current_stream(const torch::Device& /*device*/) {}

}  // namespace

void make_late(Late /*late*/, const torch::Device& /*device*/) {}
#endif

// A callback of LibTorch's is a plain function: what it needs stands here.
struct LateInBackward::Callback {
  static constexpr std::chrono::milliseconds kAgainAfter{5};  // of the 20 that a delay lasts

  Callback(Late which, const torch::Device& on) {
    const std::lock_guard lock(mutex);
    late = which;
    device = on;
    last = {};
    handle = at::addGlobalCallback(
        at::RecordFunctionCallback(&delay).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~Callback() { at::removeCallback(handle); }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

  static std::unique_ptr<at::ObserverContext> delay(const at::RecordFunction& /*function*/) {
    const std::lock_guard lock(mutex);
    if (late == Late::other_streams) wait_for_current_stream(device);
    const auto now = std::chrono::steady_clock::now();
    if (now - last < kAgainAfter) return nullptr;
    last = now;
    make_late(late, device);
    return nullptr;
  }

  static inline std::mutex mutex;  // of all below: several threads go backward
  static inline Late late = Late::nobody;
  static inline torch::Device device{torch::kCPU};
  static inline std::chrono::steady_clock::time_point last{};
  at::CallbackHandle handle = 0;
};

LateInBackward::LateInBackward(Late late, const torch::Device& device) {
  if (device.is_cuda() && late != Late::nobody) {
    callback_ = std::make_unique<Callback>(late, device);
  }
}

LateInBackward::~LateInBackward() = default;

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
