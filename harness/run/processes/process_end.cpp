#include "harness/run/processes/process_end.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <poll.h>
#include <sstream>
#include <string>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "harness/run/looks/proc_look.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(10);  // far below what a launcher notices

// When the process began, in ticks: another one of the same number began at another time. Nothing where it has ended,
// reaped or not.
std::optional<std::string> beginning_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const std::size_t name_end = text.rfind(')');  // a name may hold spaces and brackets
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int kBeginning = 22;  // proc(5); the state is field 3
  std::string field;
  for (int number = 3; number <= kBeginning && fields >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return std::nullopt;
  }
  return field;
}

// Signals are for the threads that the controller waits in.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

// struct pidfd_info of linux/pidfd.h, which older systems do not have.
struct PidfdInfo {
  std::uint64_t mask = 0;
  std::uint64_t cgroup = 0;
  std::array<std::uint32_t, 11> ids{};
  std::int32_t exit_code = 0;
};

std::optional<int> status_of_pidfd(int pidfd) {
  constexpr std::uint64_t kExit = 1U << 3;
  PidfdInfo info;
  info.mask = kExit;
  const bool told =
      ioctl(pidfd, _IOWR(0xFF, 11, PidfdInfo), &info) == 0 && (info.mask & kExit) != 0;
  return told ? std::optional<int>(info.exit_code) : std::nullopt;
}

}  // namespace

Fd watch_end_in_proc(pid_t pid) {
  const auto beginning = beginning_of(pid);
  if (!beginning && kill(pid, 0) != 0) {
    errno = ESRCH;
    return {};
  }
  Fd ended(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Fd told(fcntl(ended.get(), F_DUPFD_CLOEXEC, 0));
  if (!ended.is_open() || !told.is_open()) return {};
  const NoSignals no_signals;
  try {
    std::thread([pid, beginning, told = std::move(told)] {
      while (beginning && beginning_of(pid) == beginning)
        std::this_thread::sleep_for(kBetweenLooks);
      (void)eventfd_write(told.get(), 1);
    }).detach();
  } catch (const std::system_error& error) {
    errno = error.code().value();
    return {};
  }
  return ended;
}

Fd watch_end(pid_t pid) {
  constexpr unsigned kNoFlags = 0;
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, kNoFlags)));
  const bool unknown = !pidfd.is_open() && (errno == ENOSYS || errno == EPERM);
  return unknown ? watch_end_in_proc(pid) : std::move(pidfd);
}

bool has_ended(const Fd& watched) {
  pollfd ended = {watched.get(), POLLIN, 0};
  return !watched.is_open() || poll(&ended, 1, 0) > 0;
}

ExitStatus exit_status_of(int word) {
  ExitStatus end;
  if (WIFSIGNALED(word)) {
    end.signal = WTERMSIG(word);
    end.core_dumped = WCOREDUMP(word);
  } else {
    end.exit_code = WEXITSTATUS(word);
  }
  return end;
}

std::optional<ExitStatus> end_of_stranger(pid_t pid, int pidfd) {
  if (const auto status = status_of_pidfd(pidfd)) return exit_status_of(*status);
  const std::string stat = proc_file(pid, "stat");
  const auto state = parse_stat(stat);
  if (!state || state->state != 'Z') {  // its parent has waited for it meanwhile
    const auto status = status_of_pidfd(pidfd);
    return status ? std::optional(exit_status_of(*status)) : std::nullopt;
  }
  const std::size_t last =
      stat.find_last_of(' ');  // its last field is the status, as wait() has it
  const auto status = nsa::parse_int(stat.substr(last + 1, stat.find('\n', last) - last - 1));
  return status ? std::optional(exit_status_of(static_cast<int>(*status))) : std::nullopt;
}

bool is_good(const std::optional<ExitStatus>& end) {
  return end.has_value() && end->signal == 0 && end->exit_code == 0;
}

std::string told_end(const std::optional<ExitStatus>& end) {
  if (!end) return "ended";
  return end->signal != 0 ? "was ended by signal " + std::to_string(end->signal)
                          : "exited with " + std::to_string(end->exit_code);
}

ExitStatus as_torchrun_tells(int code) {
  ExitStatus end;
  (code < 0 ? end.signal : end.exit_code) = std::abs(code);
  return end;
}

}  // namespace harness
