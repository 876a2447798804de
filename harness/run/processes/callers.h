// Processes that call the controller: those of a command that have the two lines in their script. They find it by the name of an
// abstract Unix socket in their environment, since no descriptor survives a launcher. Who calls is told by the kernel, not by them.
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

  // Listens. Throws: nsa::Error.
  Callers();

  [[nodiscard]] const std::string& address() const { return address_; }  // without the leading zero
  void add_to(std::vector<pollfd>& waited) const;                        // new callers alone
  [[nodiscard]] int interval_ms() const { return interval_ms_; }  // until read() is due again
  // Takes in who calls, of this user alone, and what they wrote. Never waits.
  void read(const OnLine& on_line);
  // A line to a caller, that asks it for its stacks; false: this process has not called.
  [[nodiscard]] bool ask_for_stacks(pid_t pid) const;

 private:
  struct Caller {
    Caller(pid_t of, Fd connection) : pid(of), fd(std::move(connection)), lines(kMaxEventBytes) {}
    pid_t pid;
    Fd fd;
    LineReader lines;
  };

  void accept_all();
  static std::size_t read_one(Caller& caller, const OnLine& on_line);  // gives its bytes

  std::string address_;
  Fd listening_;
  std::vector<std::unique_ptr<Caller>> callers_;
  int interval_ms_;
};

}  // namespace harness
