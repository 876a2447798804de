// The worker's only way to say anything: one JSON line a row on fd 3. Lines are whole and in order whatever thread writes
// them. Writing blocks when the controller is slow, so nothing is ever dropped; a failed write ends the process, because a
// rank that cannot record must not go on.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "harness/evidence/event.h"

namespace harness {

inline constexpr int kEventFd = 3;

class Channel {
 public:
  // `clock_origin_ms`: CLOCK_MONOTONIC of the case's beginning, so that all processes share one time axis.
  Channel(int fd, int process, std::int64_t clock_origin_ms);

  template <typename Row>
  void write(const Row& row) {
    write_event(Event::of(process_, now_ms(), row));
  }

  // Many at once: with one call into the kernel, and no line of another thread between them.
  void write_all(const std::vector<Gradient>& rows);

  [[nodiscard]] std::int64_t now_ms() const;
  [[nodiscard]] int process() const { return process_; }

 private:
  void write_event(const Event& event);
  void write_lines(const std::string& lines);

  int fd_;
  int process_;
  std::int64_t clock_origin_ms_;
  std::mutex mutex_;
};

}  // namespace harness
