// Processes that call the controller: those of a command that have the two lines in their script. They find it by the path of a
// Unix socket in their environment, since no descriptor survives a launcher. A path is found from every network namespace. The
// kernel says who calls.
//
// What they write wakes nobody: to wake a process that waits costs the writer more than the rest of its write, at every line. They
// are read at intervals, which are short while one of them writes so much that its socket could fill.
#pragma once

#include <functional>
#include <memory>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "harness/evidence/event.h"
#include "harness/evidence/line_reader.h"
#include "harness/run/processes/spawn_process.h"

namespace harness {

class Callers {
 public:
  using OnLine = std::function<void(pid_t, LineReader::Piece, std::string_view)>;

  // Listens in `folder`. If its file system has no sockets or no room: in a folder of this user alone below TMPDIR or /tmp.
  // Throws: nsa::Error.
  explicit Callers(const std::string& folder);
  ~Callers();
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

  [[nodiscard]] std::string address() const;                      // absolute path of the socket
  void add_to(std::vector<pollfd>& waited) const;                 // new callers alone
  [[nodiscard]] int interval_ms() const { return interval_ms_; }  // until read() is due again
  // Takes in who calls, of this user alone, and what they wrote. Never waits.
  void read(const OnLine& on_line);
  // A line to a caller, that asks it for what PyTorch's flight recorder holds. Does nothing if this process has not called.
  void ask_for_flight(pid_t pid) const;

 private:
  struct Caller {
    Caller(pid_t of, Fd connection) : pid(of), fd(std::move(connection)), lines(kMaxEventBytes) {}
    pid_t pid;
    Fd fd;
    LineReader lines;
  };

  void accept_all();
  static std::size_t read_one(Caller& caller, const OnLine& on_line);  // gives its bytes

  std::string folder_;   // of the socket
  bool is_own_ = false;  // made for the socket
  Fd listening_;
  std::vector<std::unique_ptr<Caller>> callers_;
  int interval_ms_;
};

}  // namespace harness
