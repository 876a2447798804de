// How often the host had to wait for the device's numbers: operators that LibTorch tags as such, whose result or whose size
// depends on the numbers of a tensor, and copies from a device to the host. Counted while one of these lives, and not where they
// are a NanWatch's. On a CPU the operators cost nothing, and are counted all the same: they are what will wait on a GPU. A copy
// to the host is none there. What waits without an operator of LibTorch, a back end that calls the device's runtime itself, is
// not seen.
#pragma once

#include <cstdint>

namespace harness {

class HostSyncs {
 public:
  HostSyncs();
  ~HostSyncs();
  HostSyncs(const HostSyncs&) = delete;
  HostSyncs& operator=(const HostSyncs&) = delete;

  // Of this process, all its threads, since this was made or since the last call.
  [[nodiscard]] std::int64_t take();

 private:
  std::int64_t taken_;
};

}  // namespace harness
