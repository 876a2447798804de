#include "harness/worker/channel.h"

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <unistd.h>

#include "harness/run/clock.h"

namespace harness {
namespace {

constexpr int kExitCannotRecord = 74;  // EX_IOERR

}  // namespace

Channel::Channel(int fd, int process, std::int64_t clock_origin_ms)
    : fd_(fd), process_(process), clock_origin_ms_(clock_origin_ms) {}

std::int64_t Channel::now_ms() const {
  return monotonic_ms() - clock_origin_ms_;
}

void Channel::write_event(const Event& event) {
  const std::string line = encode_event(event) + "\n";
  const std::lock_guard lock(mutex_);
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::write(fd_, line.data() + sent, line.size() - sent);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      std::perror("nsa-harness-worker: cannot record");
      _exit(kExitCannotRecord);
    }
    sent += static_cast<std::size_t>(n);
  }
}

}  // namespace harness
