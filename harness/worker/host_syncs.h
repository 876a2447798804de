// How often the host had to wait for the device's numbers: operators that bring a value or a size to the host. Counted while one
// of these lives. On a CPU they cost nothing, and are counted all the same: they are what will wait on a GPU.
// Those of a NanWatch are not.
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
