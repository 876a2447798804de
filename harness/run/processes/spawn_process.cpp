#include "harness/run/processes/spawn_process.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "harness/run/processes/case_mark.h"
#include "harness/run/processes/process_end.h"
#include "nsa/base/error.h"
#include "nsa/base/new_file.h"

extern char** environ;

namespace harness {
namespace {

constexpr int kEventsTarget = 3;
constexpr int kFirstPassed = 4;
// The pipe holds what a rank writes while the controller is busy elsewhere; the kernel's default is 64 KiB.
constexpr int kPipeBytes = 1 << 20;

[[noreturn]] void fail(const std::string& doing, int error) {
  throw nsa::Error("cannot " + doing + ": " + std::strerror(error));
}

void check_call(int result, const std::string& doing) {
  if (result < 0) fail(doing, errno);
}

void check_spawn_call(int error) {
  if (error != 0) fail("prepare a process", error);
}

// dup2 to fd 3, 4, ... must not hit another source: sources are moved above all of them.
Fd above_targets(int fd) {
  constexpr int kFirstFree = 10;
  Fd copy(fcntl(fd, F_DUPFD_CLOEXEC, kFirstFree));
  check_call(copy.get(), "duplicate a descriptor");
  return copy;
}

struct Pipe {
  Fd reading;
  Fd writing;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  check_call(pipe2(ends.data(), O_CLOEXEC), "make a pipe");
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  // Only the reading end: O_NONBLOCK on the writing end would lose a flooding rank's events.
  check_call(fcntl(pipe.reading.get(), F_SETFL, O_NONBLOCK), "make a pipe non-blocking");
  fcntl(pipe.reading.get(),
        F_SETPIPE_SZ,
        kPipeBytes);  // refused above the user's limit: then it stays smaller
  return pipe;
}

// The argument of posix_spawn() that says which descriptors the process gets.
class FileActions {
 public:
  explicit FileActions(const Spawn& request) {
    check_spawn_call(posix_spawn_file_actions_init(&actions_));
    for (const auto& [from, to] : request.descriptors)
      check_spawn_call(posix_spawn_file_actions_adddup2(&actions_, from, to));
    if (request.closed_from >= 0)
      check_spawn_call(posix_spawn_file_actions_addclosefrom_np(&actions_, request.closed_from));
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// The argument that says which signals are blocked and which have their default action.
class Attributes {
 public:
  explicit Attributes(const Spawn& request) {
    check_spawn_call(posix_spawnattr_init(&attributes_));
    sigset_t blocked{};
    sigemptyset(&blocked);
    for (const int number : request.blocked) sigaddset(&blocked, number);
    sigset_t defaults{};
    sigemptyset(&defaults);
    if (request.all_defaults) sigfillset(&defaults);
    for (const int number : {SIGKILL, SIGSTOP}) sigdelset(&defaults, number);
    for (const int number : {SIGPIPE, SIGXFSZ}) sigaddset(&defaults, number);
    check_spawn_call(posix_spawnattr_setsigmask(&attributes_, &blocked));
    check_spawn_call(posix_spawnattr_setsigdefault(&attributes_, &defaults));
    check_spawn_call(posix_spawnattr_setpgroup(&attributes_, 0));
    constexpr int kFlags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    check_spawn_call(posix_spawnattr_setflags(&attributes_, static_cast<short>(kFlags)));
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  [[nodiscard]] const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    result.push_back(
        const_cast<char*>(text.c_str()));  // NOLINT: posix_spawn does not write to them
  }
  result.push_back(nullptr);
  return result;
}

// Where a process writes: in a folder in which others may have planted a link or a pipe.
Fd open_output(const std::string& path) {
  const Fd file(nsa::open_to_add(path, O_WRONLY | O_APPEND));
  return above_targets(file.get());
}

}  // namespace

pid_t spawn(const Spawn& request) {
  const FileActions actions(request);
  const Attributes attributes(request);
  const std::vector<char*> argv = pointers(request.argv);
  const std::vector<char*> variables =
      request.environment != nullptr ? pointers(*request.environment) : std::vector<char*>();
  char* const* environment = request.environment != nullptr ? variables.data() : environ;
  pid_t pid = -1;
  const Marking marking(request.mark);
  const auto start = request.on_path ? posix_spawnp : posix_spawn;
  const int error = start(
      &pid, request.argv.at(0).c_str(), actions.get(), attributes.get(), argv.data(), environment);
  return error == 0 ? pid : -error;
}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() noexcept {
  return std::exchange(fd_, -1);
}

void Fd::reset() noexcept {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Process::Process(pid_t pid, Fd pidfd, Fd events)
    : pid_(pid), pidfd_(std::move(pidfd)), events_(std::move(events)) {}

Process::Process(Process&& other) noexcept
    : pid_(other.pid_),
      pidfd_(std::move(other.pidfd_)),
      events_(std::move(other.events_)),
      reaped_(std::exchange(other.reaped_, true)) {}

Process Process::spawn(const ProcessRequest& request) {
  Pipe pipe = make_pipe();
  const Fd writing = above_targets(pipe.writing.get());
  std::vector<Fd> passed;
  for (const int fd : request.passed) passed.push_back(above_targets(fd));
  const Fd nothing = above_targets(Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)).get());
  const Fd out = open_output(request.out_path);
  const Fd err = open_output(request.err_path);
  Spawn start;
  start.argv = request.argv;
  start.environment = &request.environment;
  start.descriptors = {{nothing.get(), STDIN_FILENO},
                       {out.get(), STDOUT_FILENO},
                       {err.get(), STDERR_FILENO},
                       {writing.get(), kEventsTarget}};
  start.closed_from = kFirstPassed;
  for (const Fd& fd : passed) start.descriptors.emplace_back(fd.get(), start.closed_from++);
  start.blocked = {SIGUSR1};
  start.all_defaults = true;
  start.mark = request.mark;
  const pid_t pid = harness::spawn(start);
  if (pid < 0) fail("start " + request.argv.at(0), -pid);
  Process process(pid, Fd(), std::move(pipe.reading));
  process.pidfd_ = watch_end(process.pid_);
  check_call(process.pidfd_.get(), "watch the process of " + request.argv.at(0));
  return process;
}

Process::~Process() {
  if (reaped_) return;
  signal_group(SIGKILL);
  // A killed process ends at once, or (state D) when its device lets go of it; the latter is not waited for.
  for (int i = 0; i < 100 && !exited(); ++i) usleep(10'000);
  if (exited()) (void)collect();
}

void Process::signal(int number) const noexcept {
  if (!reaped_) kill(pid_, number);
}

void Process::signal_group(int number) const noexcept {
  if (!reaped_) kill(-pid_, number);
}

bool Process::exited() const {
  siginfo_t info{};
  if (reaped_) return false;
  const int failed = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  // Somebody else reaped it: it will never be a zombie, and reap() says so.
  return failed != 0 ? errno == ECHILD : info.si_pid == pid_;
}

bool Process::group_gone() const {
  return reaped_ && kill(-pid_, 0) != 0;
}

ExitStatus Process::reap() {
  const std::optional<ExitStatus> status = collect();
  if (status) return *status;
  throw nsa::Error("process " + std::to_string(pid_) +
                   " ended, and how it ended is lost: somebody else waited for it");
}

std::optional<ExitStatus> Process::collect() {
  signal_group(SIGKILL);
  siginfo_t info{};
  rusage usage{};
  // glibc's waitid() leaves out the usage that the system call gives.
  long result = -1;
  do {
    result = syscall(SYS_waitid, P_PID, pid_, &info, WEXITED, &usage);
  } while (result < 0 && errno == EINTR);
  reaped_ = true;
  if (result < 0) return std::nullopt;
  ExitStatus status;
  if (info.si_code == CLD_EXITED) {
    status.exit_code = info.si_status;
  } else {
    status.signal = info.si_status;
    status.core_dumped = info.si_code == CLD_DUMPED;
  }
  status.rss_peak_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  return status;
}

Listener listen_on(const std::string& address, int port) {
  const std::string place = address + (port > 0 ? ":" + std::to_string(port) : "");
  Listener listener{Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), 0};
  check_call(listener.fd.get(), "make a socket");
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, address.c_str(), &where.sin_addr) != 1) {
    throw nsa::Error("cannot listen on " + address + ": wanted an IPv4 address in numbers");
  }
  socklen_t length = sizeof(where);
  auto* const generic = reinterpret_cast<sockaddr*>(&where);  // NOLINT: the socket API's own way
  check_call(bind(listener.fd.get(), generic, length), "bind " + place);
  check_call(listen(listener.fd.get(), SOMAXCONN), "listen on " + place);
  check_call(getsockname(listener.fd.get(), generic, &length), "read a socket's port");
  listener.port = ntohs(where.sin_port);
  return listener;
}

}  // namespace harness
