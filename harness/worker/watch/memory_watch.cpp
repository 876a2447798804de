#include "harness/worker/watch/memory_watch.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#ifdef NSA_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include <algorithm>
#include <atomic>
#include <memory>

namespace harness {
namespace {

struct Count {
  std::atomic<std::int64_t> held{0};
  std::atomic<std::int64_t> peak{0};
};
Count
    count;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): the allocator reports to one place

// LibTorch tells this thread of what it allocates and frees; what other threads do meanwhile (a transport frees what it has
// sent) is in the total that it keeps itself.
class Reporter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*pointer*/,
                         std::int64_t /*bytes*/,
                         std::size_t allocated,
                         std::size_t /*reserved*/,
                         c10::Device device) override {
    if (!device.is_cpu()) {
      return;
    }
    const auto now = static_cast<std::int64_t>(allocated);
    count.held = now;
    std::int64_t peak = count.peak.load();
    while (now > peak && !count.peak.compare_exchange_weak(peak, now)) {
    }
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
};

}  // namespace

MemoryWatch::MemoryWatch(const torch::Device& device)
    : device_(device), counted_before_(FLAGS_caffe2_report_cpu_memory_usage) {
  FLAGS_caffe2_report_cpu_memory_usage = true;
  c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE,
                                   std::make_shared<Reporter>());
}

MemoryWatch::~MemoryWatch() {
  c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
  FLAGS_caffe2_report_cpu_memory_usage = counted_before_;
}

std::int64_t MemoryWatch::free_workspaces() {
  const std::int64_t before = held_bytes();
#ifdef NSA_CUDA
  if (device_.is_cuda()) at::cuda::clearCublasWorkspaces();
#endif
  return before - held_bytes();
}

void MemoryWatch::reset_peak() {
  count.peak = count.held.load();
#ifdef NSA_CUDA
  if (device_.is_cuda()) {
    c10::cuda::CUDACachingAllocator::resetPeakStats(device_.index());
  }
#endif
}

std::int64_t MemoryWatch::held_bytes() const {
#ifdef NSA_CUDA
  if (device_.is_cuda()) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_.index());
    return stats.requested_bytes[0].current;
  }
#endif
  return count.held;
}

std::int64_t MemoryWatch::peak_bytes() const {
#ifdef NSA_CUDA
  if (device_.is_cuda()) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_.index());
    return stats.requested_bytes[0].peak;
  }
#endif
  return count.peak;
}

std::int64_t MemoryWatch::peak_bytes_of_blocks() const {
#ifdef NSA_CUDA
  if (device_.is_cuda()) {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_.index());
    return stats.allocated_bytes[0].peak;
  }
#endif
  return count.peak;
}

}  // namespace harness
