#include "harness/worker/watch/late_streams.h"

#include <chrono>
#include <mutex>

#include <ATen/record_function.h>
#include <torch/cuda.h>

#ifdef NSA_CUDA
#include <vector>

#include <c10/cuda/CUDAStream.h>

#include "harness/worker/watch/held_streams.h"
#endif

namespace harness {

#ifdef NSA_CUDA
namespace {

constexpr int kStreamsOfAPool = 32;  // LibTorch hands them out in turn

std::vector<c10::cuda::CUDAStream> streams_of_pools(const torch::Device& device) {
  std::vector<c10::cuda::CUDAStream> streams;
  for (const bool high_priority : {false, true}) {
    for (int i = 0; i < kStreamsOfAPool; ++i) {
      streams.push_back(c10::cuda::getStreamFromPool(high_priority, device.index()));
    }
  }
  return streams;
}

}  // namespace

void make_late(Late late, const torch::Device& device) {
  if (!device.is_cuda() || late == Late::nobody) return;
  const auto current = c10::cuda::getCurrentCUDAStream(device.index());
  if (late == Late::current_stream) {
    hold_once(current);
    return;
  }
  current.synchronize();
  // They live on: at the end the driver may be gone.
  static auto* const others = new HeldStreams(streams_of_pools(device));
  others->hold();
}
#else
void make_late(Late /*late*/, const torch::Device& /*device*/) {}
#endif

// A callback of LibTorch's is a plain function: what it needs stands here.
struct LateInBackward::Callback {
  // Of the current stream: sooner than its delay of 20 ms ends. Other streams are asked at every operator to go on being held.
  static constexpr std::chrono::milliseconds kAgainAfter{5};

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
    if (late == Late::current_stream) {
      const auto now = std::chrono::steady_clock::now();
      if (now - last < kAgainAfter) return nullptr;
      last = now;
    }
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
