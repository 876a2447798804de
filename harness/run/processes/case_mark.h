// By what the processes of a case are known, whatever groups and sessions they make, and whoever adopts them. Each process passes
// it on to what it starts. There are two of them, since each can be lost: a variable in the environment, which a process may empty;
// and a number in place of RLIMIT_LOCKS, a limit that Linux keeps, inherits and shows in /proc, and has not looked at since 2.4.25.
// The second one stays when the environment is emptied; it is lost where a limit is set anew, as su and sudo may do.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>

namespace harness {

struct CaseMark {
  std::string
      variable;  // "NAME=value", to be put into the environment of every process of the case; "": none
  std::uint64_t number = 0;  // of ProcessRequest::mark; 0: this system lets nobody set the limit
};

// Of the case that keeps its files in `folder`: no other one has this number.
[[nodiscard]] CaseMark draw_mark(const std::string& folder);

// In the upper half of what may be set: nobody has such a limit by chance. 0 where it cannot be set,
// or /proc does not show it.
[[nodiscard]] std::uint64_t draw_number();

// False where it cannot be read, or the process has ended.
[[nodiscard]] bool has_mark(pid_t pid, const CaseMark& mark);

// As long as one lives, what this thread starts has the number; no other thread can make one meanwhile. So whoever starts a process
// that belongs to no case makes one too, with 0.
class Marking {
 public:
  explicit Marking(std::uint64_t number);
  ~Marking();
  Marking(const Marking&) = delete;
  Marking& operator=(const Marking&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  rlimit before_{};
  bool changed_ = false;
};

}  // namespace harness
