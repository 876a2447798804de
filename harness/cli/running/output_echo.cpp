#include "harness/cli/running/output_echo.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "harness/run/record/run_folder.h"

namespace harness::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(50);

// False: nobody reads it any more.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (n < 0 && errno == EAGAIN) usleep(1'000);  // somebody made the terminal non-blocking
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

OutputEcho::OutputEcho(std::string folder, int out, int err)
    : out_{folder + "/" + kCommandOutFile, out},
      err_{folder + "/" + kCommandErrFile, err},
      thread_([this] { follow(); }) {}

OutputEcho::~OutputEcho() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_one();
  thread_.join();
  for (Stream* const stream : {&out_, &err_}) {
    if (stream->from >= 0) close(stream->from);
  }
}

void OutputEcho::follow() {
  for (bool last = false; !last;) {
    {
      std::unique_lock lock(mutex_);
      last = ended_.wait_for(lock, kBetweenLooks, [this] { return ends_; });
    }
    copy(out_);
    copy(err_);
  }
  for (const Stream* const stream : {&out_, &err_}) {
    if (stream->line_is_open) (void)write_all(stream->to, "\n");
  }
}

void OutputEcho::copy(Stream& stream) {
  if (stream.from < 0) stream.from = open(stream.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  std::array<char, 1 << 16> buffer;  // NOLINT: filled by read()
  for (ssize_t n = 0; stream.from >= 0 && !stream.lost;) {
    n = read(stream.from, buffer.data(), buffer.size());
    if (n <= 0) return;
    stream.line_is_open = buffer[static_cast<std::size_t>(n) - 1] != '\n';
    stream.lost = !write_all(stream.to, {buffer.data(), static_cast<std::size_t>(n)});
  }
}

}  // namespace harness::cli
