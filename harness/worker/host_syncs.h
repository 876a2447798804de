// How often the host had to wait for the device's numbers: operators that bring a value or a size to the host. Counted while one
// of these lives. On a CPU they cost nothing, and are counted all the same: they are what will wait on a GPU.
#pragma once

#include <cstdint>

#include <ATen/record_function.h>

namespace harness {

class HostSyncs {
 public:
  HostSyncs();
  ~HostSyncs();
  HostSyncs(const HostSyncs&) = delete;
  HostSyncs& operator=(const HostSyncs&) = delete;

  // Of this process, all its threads, since the last call.
  [[nodiscard]] std::int64_t take();

 private:
  at::CallbackHandle handle_;
};

}  // namespace harness
