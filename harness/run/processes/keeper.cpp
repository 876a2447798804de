#include "harness/run/processes/keeper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utility>

#include "harness/run/clock.h"
#include "harness/run/looks/proc_look.h"
#include "harness/run/processes/kill_exactly.h"
#include "harness/run/processes/process_end.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr int kPidFd = 3;
constexpr int kLiveOutFd = 4;
constexpr int kLiveErrFd = 5;
constexpr int kNotStarted = 127;         // as shells say it
constexpr std::int64_t kLeftMs = 1'000;  // for what the command left behind
constexpr std::int64_t kTermMs = 2'000;  // between TERM and KILL
constexpr int kRoundMs = 50;  // a tree that forks while it is killed is killed again so often

sigset_t watched_signals() {
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  for (const int number : kPassedOn) sigaddset(&set, number);
  return set;
}

// Appends all of it; false: the disk does not take the rest.
bool append(int fd, std::string_view text, std::size_t& written) {
  while (written < text.size()) {
    const ssize_t n = write(fd, text.data() + written, text.size() - written);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) written += static_cast<std::size_t>(n);
  }
  return true;
}

// One of the two streams that the command prints to.
class Stream {
 public:
  // `file`: of the record; `live`: what the file does not take goes there. A stream whose `live` is a terminal is a terminal to the
  // command, so that it prints line by line and in colours as it would without this process.
  Stream(int file, int live) : file_(file), live_(fcntl(live, F_GETFD) < 0 ? -1 : live) {
    if (live_ >= 0) fcntl(live_, F_SETFD, FD_CLOEXEC);
    if (live_ >= 0 && isatty(live_) != 0) make_terminal();
    if (!writing_.is_open()) make_pipe();
    fcntl(reading_.get(), F_SETFL, O_NONBLOCK);
  }

  // What the command gets; the file itself where there are no more pipes.
  [[nodiscard]] int for_command() const { return writing_.is_open() ? writing_.get() : file_; }
  void command_has_it() { writing_.reset(); }
  [[nodiscard]] int reading() const { return reading_.get(); }

  // A terminal becomes as large as the real one.
  void take_size() const {
    winsize size{};
    if (live_ >= 0 && reading_.is_open() && ioctl(live_, TIOCGWINSZ, &size) == 0)
      ioctl(reading_.get(), TIOCSWINSZ, &size);
  }

  // Takes what is there. Never waits for whoever prints.
  void drain() {
    std::array<char, 1 << 16> buffer;  // NOLINT: filled by read()
    while (reading_.is_open()) {
      const ssize_t n = read(reading_.get(), buffer.data(), buffer.size());
      if (n > 0) {
        take({buffer.data(), static_cast<std::size_t>(n)});
      } else if (n == 0 || errno == EIO) {  // of a terminal that nobody has open any more
        reading_.reset();
      } else if (errno != EINTR) {
        return;
      }
    }
  }

  // Where it waits for its `live`: to be polled for POLLOUT; -1: nothing waits.
  [[nodiscard]] int waits_for() const { return aside_.empty() ? -1 : live_; }

  // Gives to `live` what it takes at once.
  void put_aside() {
    // A pipe takes so many bytes at once if it takes any, and no terminal that is stopped takes one.
    constexpr std::size_t kAtOnce = 512;
    std::size_t given = 0;
    while (given < aside_.size()) {
      pollfd ready = {live_, POLLOUT, 0};
      if (poll(&ready, 1, 0) != 1) break;
      const ssize_t n =
          write(live_, aside_.data() + given, std::min(kAtOnce, aside_.size() - given));
      if (n < 0 && errno != EINTR) live_ = -1;  // nobody reads it any more
      if (n > 0) given += static_cast<std::size_t>(n);
      if (live_ < 0) given = aside_.size();
    }
    aside_.erase(0, given);
  }

  // Nothing comes after. Whoever reads `live` gets some time for the rest.
  void finish() {
    constexpr std::int64_t kRestMs = 2'000;
    drain();
    for (const std::int64_t until = monotonic_ms() + kRestMs;
         !aside_.empty() && monotonic_ms() < until;) {
      pollfd ready = {live_, POLLOUT, 0};
      (void)poll(&ready, 1, kRoundMs);
      put_aside();
    }
    if (lost_ == 0) return;
    const std::string line =
        "\nnsa-harness: the disk did not take " + std::to_string(lost_) + " bytes of this output\n";
    std::size_t written = 0;
    (void)append(file_, line, written);
  }

 private:
  void make_pipe() {
    constexpr int kPipeBytes = 1 << 20;
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
    reading_ = Fd(ends[0]);
    writing_ = Fd(ends[1]);
    fcntl(reading_.get(), F_SETPIPE_SZ, kPipeBytes);
  }

  // As large as the real one. It passes every byte on as it is.
  void make_terminal() {
    Fd master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    std::array<char, 64> name{};
    if (!master.is_open() || grantpt(master.get()) != 0 || unlockpt(master.get()) != 0 ||
        ptsname_r(master.get(), name.data(), name.size()) != 0) {
      return;
    }
    Fd slave(open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    termios mode{};
    if (!slave.is_open() || tcgetattr(slave.get(), &mode) != 0) return;
    cfmakeraw(&mode);
    if (tcsetattr(slave.get(), TCSANOW, &mode) != 0) return;
    winsize size{};
    if (ioctl(live_, TIOCGWINSZ, &size) == 0) ioctl(slave.get(), TIOCSWINSZ, &size);
    reading_ = std::move(master);
    writing_ = std::move(slave);
  }

  void take(std::string_view text) {
    std::size_t written = 0;
    if (append(file_, text, written)) return;
    text.remove_prefix(written);
    lost_ += text.size();
    constexpr std::size_t kMostAside = std::size_t{8} << 20;
    if (live_ < 0 || aside_.size() + text.size() > kMostAside) return;
    aside_ += text;
    put_aside();
  }

  int file_;
  int live_;
  Fd reading_;
  Fd writing_;
  std::string aside_;     // what the file did not take and `live` has not taken yet
  std::size_t lost_ = 0;  // bytes that the file did not take
};

// As a shell would start it: no signal is blocked or ignored.
std::optional<pid_t> start_command(char** argv, const Stream& out, const Stream& err) {
  Spawn command;
  for (char** word = argv; *word != nullptr; ++word) command.argv.emplace_back(*word);
  command.on_path = true;
  command.descriptors = {{out.for_command(), STDOUT_FILENO}, {err.for_command(), STDERR_FILENO}};
  const pid_t pid = spawn(command);
  if (pid > 0) return pid;
  std::cerr << command.argv.front() << ": " << std::strerror(-pid) << std::endl;
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

// What the command left behind and did not end by itself, as long as it can be asked for its words.
void say_left() {
  constexpr int kMost = 16;
  constexpr std::size_t kLongest = 300;
  int said = 0;
  for (const pid_t pid : process_ids()) {
    if (said == kMost || !is_below(pid, getpid())) continue;
    const auto state = read_process_state(pid);
    if (!state || state->state == 'Z') continue;
    std::string words = proc_file(pid, "cmdline");
    for (char& c : words) c = c == '\0' || c == '\n' ? ' ' : c;
    words.erase(words.find_last_not_of(' ') + 1);
    if (words.empty()) words = state->name;
    const std::string line =
        "left " + std::to_string(pid) + " (" + words.substr(0, kLongest) + ")\n";
    (void)!write(kPidFd, line.data(), line.size());
    ++said;
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
  // `signals`: readable once one of the watched ones is there; negative: nothing wakes this process then.
  Keeping(pid_t command, int signals, Stream& out, Stream& err)
      : command_(command), signals_(signals), out_(out), err_(err) {}

  // The one that started this process is gone before it heard of the command.
  void end_now() { end_soon(0); }

  int run() {
    while (reap()) {
      wait_for_something();
      const sigset_t set = watched_signals();
      const timespec at_once = {0, 0};
      for (int number = 0; (number = sigtimedwait(&set, nullptr, &at_once)) > 0;) {
        if (number == SIGTERM) end_soon(0);
        if (number != SIGTERM && number != SIGCHLD) pass_on(number);
      }
      for (Stream* const stream : {&out_, &err_}) {
        stream->drain();
        stream->put_aside();
      }
      press_on();
    }
    out_.finish();
    err_.finish();
    return end_as(status_);
  }

 private:
  void wait_for_something() const {
    std::array<pollfd, 5> waited = {pollfd{signals_, POLLIN, 0},
                                    pollfd{out_.reading(), POLLIN, 0},
                                    pollfd{err_.reading(), POLLIN, 0},
                                    pollfd{out_.waits_for(), POLLOUT, 0},
                                    pollfd{err_.waits_for(), POLLOUT, 0}};
    const bool woken = signals_ >= 0 && term_at_ms_ == 0;  // by whatever happens
    (void)poll(waited.data(), waited.size(), woken ? -1 : kRoundMs);
  }

  void pass_on(int number) {
    if (number == SIGWINCH) {
      out_.take_size();
      err_.take_size();
    }
    if (!ended_) (void)kill(command_, number);
  }

  // False: nothing is left.
  bool reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid != command_) continue;
      ended_ = true;
      ended_by_itself_ = term_at_ms_ == 0;
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
      if (ended_by_itself_) say_left();
      signal_all_below(SIGTERM);
      kill_at_ms_ = monotonic_ms() + kTermMs;
    } else if (monotonic_ms() >= kill_at_ms_) {
      signal_all_below(SIGKILL);
    }
  }

  pid_t command_;
  int signals_;
  Stream& out_;
  Stream& err_;
  int status_ = 0;
  bool ended_ = false;
  bool ended_by_itself_ = false;
  std::int64_t term_at_ms_ = 0;  // 0: not decided
  std::int64_t kill_at_ms_ = 0;
};

}  // namespace

int keep(char** argv) {
  const sigset_t set = watched_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // the parent may be gone before it has read who was started
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of the record's files is no end of the command
  const Fd signals(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  fcntl(kPidFd, F_SETFD, FD_CLOEXEC);
  Stream out(STDOUT_FILENO, kLiveOutFd);
  Stream err(STDERR_FILENO, kLiveErrFd);
  const std::optional<pid_t> command = start_command(argv, out, err);
  if (!command) {
    say_end(W_EXITCODE(kNotStarted, 0));
    return kNotStarted;
  }
  out.command_has_it();
  err.command_has_it();
  Keeping keeping(*command, signals.get(), out, err);
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
    constexpr std::string_view kLeft = "left ";
    if (line.starts_with(kLeft)) said.left.emplace_back(line.substr(kLeft.size()));
    const bool ended = line.starts_with(kEnded);
    if (ended) line.remove_prefix(kEnded.size());
    const auto number = nsa::parse_int(std::string(line));
    if (number && ended) said.end = exit_status_of(static_cast<int>(*number));
    if (number && !ended) said.command = static_cast<pid_t>(*number);
    text.remove_prefix(end + 1);
  }
}

KeeperSaid hear_keeper(int pipe, std::string& heard) {
  std::array<char, 512> text{};
  for (ssize_t n = 0; (n = read(pipe, text.data(), text.size())) > 0;) {
    heard.append(text.data(), static_cast<std::size_t>(n));
  }
  return read_keeper(heard);
}

}  // namespace harness
