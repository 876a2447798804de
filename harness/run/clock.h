// The two clocks of the program. Everything that waits or measures uses the monotonic one, which nobody can set.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace harness {

// Milliseconds since the machine started; the same clock in every process.
[[nodiscard]] inline std::int64_t monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Milliseconds since 1970, UTC: for what people read.
[[nodiscard]] inline std::int64_t wall_clock_ms() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             system_clock::now().time_since_epoch())
      .count();
}

}  // namespace harness
