#include "harness/worker/watch/late_streams.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include <ATen/record_function.h>
#include <torch/cuda.h>

#ifdef NSA_CUDA
#include <vector>

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace harness {

#ifdef NSA_CUDA
namespace {

constexpr std::int64_t kCycles = 40'000'000;  // 20 ms at 2 GHz
constexpr int kStreamsOfAPool = 32;           // LibTorch hands them out in turn

// The delays of the streams of LibTorch's pools.
class DelaysOfPools {
 public:
  void begin(const torch::Device& device) {
    if (last()) return;
    ends_.clear();
    for (const bool high_priority : {false, true}) {
      for (int i = 0; i < kStreamsOfAPool; ++i) {
        const auto stream = c10::cuda::getStreamFromPool(high_priority, device.index());
        const c10::cuda::CUDAStreamGuard guard(stream);
        at::cuda::sleep(kCycles);
        ends_.emplace_back();
        ends_.back().record(stream);
      }
    }
  }

 private:
  [[nodiscard]] bool last() const {
    return std::any_of(ends_.begin(), ends_.end(), [](const auto& end) { return !end.query(); });
  }

  std::vector<at::cuda::CUDAEvent> ends_;
};

}  // namespace

void make_late(Late late, const torch::Device& device) {
  if (!device.is_cuda() || late == Late::nobody) return;
  if (late == Late::current_stream) {
    at::cuda::sleep(kCycles);
    return;
  }
  c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
  static auto* const delays = new DelaysOfPools;  // lives on: at the end the driver may be gone
  delays->begin(device);
}
#else
void make_late(Late /*late*/, const torch::Device& /*device*/) {}
#endif

// A callback of LibTorch's is a plain function: what it needs stands here.
struct LateInBackward::Callback {
  // Of the current stream: sooner than its delay of 20 ms ends. Those of other streams are not added to one that lasts.
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
