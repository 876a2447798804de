// Which kernels a device ran, by name, as the device's own trace (LibTorch's profiler) tells: what no counter in an
// implementation can claim. Made before the work; stop() waits for the device. One at a time in a process.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace harness {

class KernelTrace {
 public:
  KernelTrace();
  ~KernelTrace();
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;

  // Names and runs of the kernels so far; the trace ends. Copies and fills of memory are no kernels.
  [[nodiscard]] std::map<std::string, std::int64_t> stop();

 private:
  bool running_ = true;
};

// The function's name alone, without its return type, arguments and template arguments, and of bounded length:
// "void ns::f<64, true>(Params)" -> "ns::f".
[[nodiscard]] std::string kernel_name(const std::string& demangled);

}  // namespace harness
