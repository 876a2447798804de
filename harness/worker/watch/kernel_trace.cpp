#include "harness/worker/watch/kernel_trace.h"

#include <set>

#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/cuda.h>

namespace harness {
namespace {

using torch::autograd::profiler::KinetoEvent;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

const std::set<ActivityType> kActivities = {ActivityType::CUDA};

bool is_kernel(const KinetoEvent& event) {
  const std::string name = event.name();
  return event.deviceType() == c10::DeviceType::CUDA && name.rfind("Memcpy", 0) != 0 &&
         name.rfind("Memset", 0) != 0;
}

}  // namespace

KernelTrace::KernelTrace() {
  const ProfilerConfig config(ProfilerState::KINETO);
  torch::autograd::profiler::prepareProfiler(config, kActivities);
  torch::autograd::profiler::enableProfiler(config, kActivities);
}

KernelTrace::~KernelTrace() {
  if (!running_) return;
  try {
    static_cast<void>(stop());
  } catch (...) {  // the work itself failed, and that is what will be told
  }
}

std::map<std::string, std::int64_t> KernelTrace::stop() {
  running_ = false;
  torch::cuda::synchronize();  // what has not ended is in no trace
  const auto result = torch::autograd::profiler::disableProfiler();
  std::map<std::string, std::int64_t> runs;
  for (const KinetoEvent& event : result->events()) {
    if (is_kernel(event)) ++runs[kernel_name(event.name())];
  }
  return runs;
}

std::string kernel_name(const std::string& demangled) {
  constexpr std::size_t kLongest = 120;  // a line of a report
  constexpr std::string_view kUnnamed = "(anonymous namespace)";
  constexpr std::string_view kReturns = "void ";
  std::size_t end = 0;
  while (end < demangled.size() && demangled[end] != '<') {
    if (demangled.compare(end, kUnnamed.size(), kUnnamed) == 0) {
      end += kUnnamed.size();
    } else if (demangled[end] == '(') {
      break;
    } else {
      ++end;
    }
  }
  const std::size_t begin = demangled.rfind(kReturns, 0) == 0 ? kReturns.size() : 0;
  const std::string name = demangled.substr(begin, end - begin);
  return name.size() > kLongest ? name.substr(0, kLongest) + "..." : name;
}

}  // namespace harness
