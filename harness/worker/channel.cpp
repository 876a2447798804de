#include "harness/worker/channel.h"

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <unistd.h>

#include "harness/evidence/gradient_line.h"
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
  write_lines(encode_event(event) + "\n");
}

void Channel::write_all(const std::vector<Gradient>& rows) {
  const std::int64_t now = now_ms();
  std::string lines;
  for (const Gradient& row : rows) append_line(lines, process_, now, row);
  write_lines(lines);
}

void Channel::write_lines(const std::string& lines) {
  const std::lock_guard lock(mutex_);
  for (std::size_t sent = 0; sent < lines.size();) {
    const ssize_t n = ::write(fd_, lines.data() + sent, lines.size() - sent);
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
