// One worker process: started in a process group of its own, with a pipe for its evidence on fd 3, and nothing else of the
// controller's. Owned by one group of workers; moves, never copied. Whatever happens, its destructor kills the group.
//
// Exit and reaping: exited() sees the end without reaping, so that the process number cannot be given to another process
// while signals are still sent to the group; reap() ends what is left of the group and then collects the exit status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace harness {

// A file descriptor that is closed with its owner.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  int release() noexcept;
  void reset() noexcept;

 private:
  int fd_ = -1;
};

// All that differs between the processes that this program starts. Each is in a process group of its own.
struct Spawn {
  std::vector<std::string> argv;
  const std::vector<std::string>* environment =
      nullptr;           // NAME=value; null: as this process has it
  bool on_path = false;  // argv[0] is looked for on PATH
  // (this process's, the new one's), in this order; all others that are not closed at exec stay, unless `closed_from` is set
  std::vector<std::pair<int, int>> descriptors;
  int closed_from = -1;
  std::vector<int> blocked = {};  // signals
  // Signals that this process ignores for itself get their default action; true: all signals do.
  bool all_defaults = false;
  std::uint64_t mark = 0;  // CaseMark::number
};
// The pid, or an error number below zero. Throws: nsa::Error where it cannot even be prepared.
[[nodiscard]] pid_t spawn(const Spawn& request);

struct ProcessRequest {
  std::vector<std::string> argv;         // argv[0] is the path of the executable
  std::vector<std::string> environment;  // NAME=value, exactly what the process gets
  std::string out_path;                  // stdout and stderr are appended to these files
  std::string err_path;
  std::vector<int> passed =
      {};  // descriptors that the process gets as fd 4, 5, ...; they stay the caller's
  std::uint64_t mark = 0;  // CaseMark::number of its case
};

struct ExitStatus {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  bool core_dumped = false;
  std::int64_t rss_peak_bytes = 0;
};

class Process {
 public:
  // fd 0 is /dev/null, fd 3 the writing (blocking) end of events(); every other descriptor is closed. SIGUSR1 is blocked, so
  // that a request for stacks cannot end a process that is not ready for it; all other signals have their default action.
  // REQUIRES: called from a thread that lives longer than the process (PR_SET_PDEATHSIG is tied to the thread).
  // Throws: nsa::Error naming the executable: missing, not executable, no memory, no process slots.
  static Process spawn(const ProcessRequest& request);

  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] int pidfd() const { return pidfd_.get(); }  // readable once the process has ended
  [[nodiscard]] int events() const {
    return events_.get();
  }  // non-blocking reading end, -1 once closed
  void close_events() { events_.reset(); }

  void signal(int number) const noexcept;        // to the process alone
  void signal_group(int number) const noexcept;  // to the process and what it started
  [[nodiscard]] bool exited() const;             // it has ended: reap() will not wait
  // Kills what is left of the group and collects the status. Waits for nobody: the caller has other processes to hear.
  // REQUIRES: exited(), and not reaped before. Throws nsa::Error where the system does not tell how it ended.
  [[nodiscard]] ExitStatus reap();
  [[nodiscard]] bool reaped() const { return reaped_; }
  // After reap(): nothing is left of the group. A killed process is gone in microseconds, milliseconds on a busy machine;
  // one in the kernel's hands (state D) stays, and so does a dead one that its own parent does not collect.
  [[nodiscard]] bool group_gone() const;

 private:
  Process(pid_t pid, Fd pidfd, Fd events);
  // reap(); nothing where the system does not tell how it ended.
  [[nodiscard]] std::optional<ExitStatus> collect();

  pid_t pid_;
  Fd pidfd_;
  Fd events_;
  bool reaped_ = false;
};

// A socket that listens at one IPv4 address.
struct Listener {
  Fd fd;
  int port = 0;
};
// At a port of the kernel's choice where `port` is 0. Throws: nsa::Error.
[[nodiscard]] Listener listen_on(const std::string& address, int port = 0);
[[nodiscard]] inline Listener listen_on_loopback() {
  return listen_on("127.0.0.1");
}

}  // namespace harness
