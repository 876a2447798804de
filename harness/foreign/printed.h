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

// "KeyError: 'shard', at load (data.py:12): table[shard]"
[[nodiscard]] std::string told_error(const WorkerError& error);

struct Printed {
  // Of each rank the last one, since chained exceptions end with the one that was raised. Of those that name no rank each that is
  // not followed by another one of its chain.
  std::vector<PrintedError> errors;
  // Of threads that ended by them, while their process went on.
  std::vector<PrintedError> of_threads;
  // What C++ says of an exception that nothing caught, before it aborts: "c10::Error: CUDA error: ...", with its rank as above; at
  // most 20.
  std::vector<std::pair<std::optional<int>, std::string>> aborts;
  // Of ranks that ended by a signal: where Python's faulthandler says that they stood, the user's innermost frame.
  std::vector<std::pair<std::optional<int>, std::string>> fatal_lines;
  std::map<pid_t, int> exit_codes;  // as torchrun tells it; negative: the number of a signal
  std::map<int, pid_t> table;       // of torchrun: the ranks that failed
  std::map<int, int>
      spawned;  // the same by the number of the process, as torch.multiprocessing tells it
  std::set<pid_t> closed;     // processes that torchrun ended itself
  std::string launcher_said;  // the exception that torchrun ends with, if it is not about its ranks
  std::string last_line;  // that is not blank, before the launcher speaks of how its ranks ended
  std::vector<std::string> nccl;  // lines of NCCL's watchdog, at most 20
};

// Adds what this stream holds. Of lines of more than 8192 bytes the first and the last 4096 are read. `of`: the rank whose own
// stream it is; none: of several, or not known.
void read_printed(std::istream& stream, Printed& printed, std::optional<int> of = std::nullopt);

}  // namespace harness
