// What a command printed, read for how its ranks ended: tracebacks of Python and the lines of torchrun. Text is a weak witness:
// it is asked only for what the end of a process does not tell, and whom a line is about must stand in it.
#pragma once

#include <istream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "harness/evidence/rows.h"

namespace harness {

struct PrintedError {
  std::optional<int>
      rank;  // of the prefix "[rank1]:", or that torchrun puts before a line; none: nothing tells
  WorkerError error;  // type, first line of the message, frames innermost first
};

struct Printed {
  std::vector<PrintedError>
      errors;  // of each rank the last one, since chained exceptions end with the one that was raised
  // What C++ says of an exception that nothing caught, before it aborts: "c10::Error: CUDA error: ...", with its rank as above; at
  // most 20.
  std::vector<std::pair<std::optional<int>, std::string>> aborts;
  std::map<pid_t, int> exit_codes;  // as torchrun tells it; negative: the number of a signal
  std::set<pid_t> closed;           // processes that torchrun ended itself
  std::vector<std::string> nccl;    // lines of NCCL's watchdog, at most 20
};

// Adds what this stream holds. Of lines of more than 8192 bytes the first and the last 4096 are read.
void read_printed(std::istream& stream, Printed& printed);

}  // namespace harness
