#include "harness/cli/command.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "harness/run/processes/spawn_process.h"

namespace harness::cli {
namespace {

using Clock = std::chrono::steady_clock;

// stdout into `write_fd`. Below zero if it could not be started.
pid_t start_helper(const std::vector<std::string>& argv, int write_fd) {
  const Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  Spawn helper;
  helper.argv = argv;
  helper.on_path = true;
  helper.descriptors = {
      {nothing.get(), STDIN_FILENO}, {write_fd, STDOUT_FILENO}, {nothing.get(), STDERR_FILENO}};
  return harness::spawn(helper);
}

// Until the pipe is closed by all that hold it. False when the deadline came first.
bool read_all(int fd, Clock::time_point deadline, std::size_t max_bytes, std::string& out) {
  std::array<char, 65536> buffer = {};
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting = {fd, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    const std::size_t room = max_bytes - out.size();
    out.append(buffer.data(), std::min(room, static_cast<std::size_t>(got)));
  }
}

// The exit status; nothing where the system does not tell it. The whole group is killed at the deadline: what it started must
// not outlive it either.
std::optional<int> wait_for(pid_t pid, Clock::time_point deadline, bool& timed_out) {
  constexpr useconds_t kPollUs = 2'000;  // it has closed its stdout: it is about to end
  int status = 0;
  timed_out = timed_out || Clock::now() >= deadline;
  pid_t ended = 0;
  while (!timed_out && (ended = ::waitpid(pid, &status, WNOHANG)) == 0) {
    ::usleep(kPollUs);
    timed_out = Clock::now() >= deadline;
  }
  if (!timed_out) return ended == pid ? std::optional<int>(status) : std::nullopt;
  ::kill(-pid, SIGKILL);
  // Who waits inside of a driver for a card that is lost cannot be killed: somebody else takes note of its end.
  constexpr int kPolls = 500;
  for (int i = 0; i < kPolls; ++i) {
    if (::waitpid(pid, &status, WNOHANG) != 0) return status;
    ::usleep(kPollUs);
  }
  std::thread([pid] { ::waitpid(pid, nullptr, 0); }).detach();
  return std::nullopt;
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& argv,
                          int timeout_ms,
                          std::size_t max_bytes) {
  CommandResult result;
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return result;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  const pid_t pid = start_helper(argv, ends[1]);
  ::close(ends[1]);
  if (pid > 0) {
    result.started = true;
    result.timed_out = !read_all(ends[0], deadline, max_bytes, result.out);
    const std::optional<int> status = wait_for(pid, deadline, result.timed_out);
    if (status && WIFEXITED(*status)) result.exit_code = WEXITSTATUS(*status);
  }
  ::close(ends[0]);
  return result;
}

}  // namespace harness::cli
