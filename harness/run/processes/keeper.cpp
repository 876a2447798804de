#include "harness/run/processes/keeper.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <optional>
#include <spawn.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/run/clock.h"
#include "harness/run/looks/proc_look.h"
#include "harness/run/processes/kill_exactly.h"
#include "harness/run/processes/process_end.h"
#include "nsa/base/text.h"

extern char** environ;

namespace harness {
namespace {

constexpr int kPidFd = 3;
constexpr int kNotStarted = 127;         // as shells say it
constexpr std::int64_t kLeftMs = 1'000;  // for what the command left behind
constexpr std::int64_t kTermMs = 2'000;  // between TERM and KILL
constexpr long kRoundNs =
    50 * 1'000'000;  // a tree that forks while it is killed is killed again so often

sigset_t watched_signals() {
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  return set;
}

// As a shell would start it: no signal is blocked or ignored, a process group of its own.
std::optional<pid_t> start_command(char** argv) {
  posix_spawnattr_t attributes{};
  posix_spawnattr_init(&attributes);
  sigset_t none{};
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0], nullptr, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return pid;
  std::cerr << argv[0] << ": " << std::strerror(error) << std::endl;
  return std::nullopt;
}

bool is_below(pid_t pid, pid_t from) {
  constexpr int kDeepest = 64;  // what is deeper comes up when those above it end
  for (int i = 0; i < kDeepest; ++i) {
    const auto state = read_process_state(pid);
    if (!state || state->parent <= 1) return false;
    if (state->parent == from) return true;
    pid = state->parent;
  }
  return false;
}

// The newest come first, and each gets its signal as soon as it is seen: of processes that start each other, the last one is about
// to be gone.
void signal_all_below(int number) {
  for (const pid_t pid : process_ids()) {
    const Target target(pid);
    if (is_below(pid, getpid())) target.signal(number);
  }
}

// So that whoever started this process can tell the command's end from this one's own.
void say_end(int status) {
  const std::string line = "ended " + std::to_string(status) + "\n";
  (void)!write(kPidFd, line.data(), line.size());
}

// What the command did is done again here, so that whoever waits for this process learns it.
int end_as(int status) {
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);  // the command has written its own
  const int number = WTERMSIG(status);
  std::signal(number, SIG_DFL);
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, number);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  raise(number);
  constexpr int kShells = 128;
  return kShells + number;
}

class Keeping {
 public:
  Keeping(pid_t command, pid_t parent) : command_(command), parent_(parent) {}

  // The one that started this process is gone.
  void end_now() { end_soon(0); }

  int run() {
    const sigset_t set = watched_signals();
    const timespec round = {0, kRoundNs};
    while (reap()) {
      if (sigtimedwait(&set, nullptr, &round) == SIGTERM || getppid() != parent_) end_soon(0);
      press_on();
    }
    return end_as(status_);
  }

 private:
  // False: nothing is left.
  bool reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid != command_) continue;
      status_ = status;
      say_end(status);
      end_soon(kLeftMs);
    }
    return pid == 0;
  }

  void end_soon(std::int64_t after_ms) {
    const std::int64_t at_ms = monotonic_ms() + after_ms;
    if (term_at_ms_ == 0 || at_ms < term_at_ms_) term_at_ms_ = at_ms;
  }

  void press_on() {
    if (term_at_ms_ == 0 || monotonic_ms() < term_at_ms_) return;
    if (kill_at_ms_ == 0) {
      signal_all_below(SIGTERM);
      kill_at_ms_ = monotonic_ms() + kTermMs;
    } else if (monotonic_ms() >= kill_at_ms_) {
      signal_all_below(SIGKILL);
    }
  }

  pid_t command_;
  pid_t parent_;
  int status_ = 0;
  std::int64_t term_at_ms_ = 0;  // 0: not decided
  std::int64_t kill_at_ms_ = 0;
};

}  // namespace

int keep(char** argv) {
  const pid_t parent = getppid();
  sigset_t set = watched_signals();
  sigaddset(&set, SIGPIPE);  // the parent may be gone before it has read who was started
  sigprocmask(SIG_BLOCK, &set, nullptr);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  fcntl(kPidFd, F_SETFD, FD_CLOEXEC);
  const std::optional<pid_t> command = start_command(argv);
  if (!command) {
    say_end(W_EXITCODE(kNotStarted, 0));
    return kNotStarted;
  }
  Keeping keeping(*command, parent);
  const std::string line = std::to_string(*command) + "\n";
  if (write(kPidFd, line.data(), line.size()) < 0) keeping.end_now();
  return keeping.run();
}

KeeperSaid read_keeper(std::string_view text) {
  constexpr std::string_view kEnded = "ended ";
  KeeperSaid said;
  while (true) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return said;
    std::string_view line = text.substr(0, end);
    const bool ended = line.starts_with(kEnded);
    if (ended) line.remove_prefix(kEnded.size());
    const auto number = nsa::parse_int(std::string(line));
    if (number && ended) said.end = exit_status_of(static_cast<int>(*number));
    if (number && !ended) said.command = static_cast<pid_t>(*number);
    text.remove_prefix(end + 1);
  }
}

KeeperSaid hear_keeper(int pipe, std::string& heard) {
  std::array<char, 64> text{};
  for (ssize_t n = 0; (n = read(pipe, text.data(), text.size())) > 0;) {
    heard.append(text.data(), static_cast<std::size_t>(n));
  }
  return read_keeper(heard);
}

}  // namespace harness
