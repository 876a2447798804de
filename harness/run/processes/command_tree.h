// The processes of a command of the user's own, as /proc tells them: all that descend from its keeper, in whatever group or
// session, and which of them are ranks. A rank says so itself: its environment has RANK, as every launcher of PyTorch sets it, or
// what MPI and Slurm set for each of their tasks.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "harness/run/looks/proc_look.h"
#include "harness/run/processes/spawn_process.h"

namespace harness {

struct FoundRank {
  int rank = 0;
  int world = 0;  // how many there are; 0: it is not said
  pid_t pid = 0;  // the topmost process with this number: its children inherit the variable
  // How often torchrun has started the ranks again before this one, and how often it does at most.
  int restarts = 0;
  int most_restarts = 0;
  std::string error_file = {};  // error_file_of()
  std::string meeting = {};     // kMeetingFact
};

class CommandTree {
 public:
  explicit CommandTree(pid_t keeper) : keeper_(keeper) {}

  void scan(std::int64_t now_ms);
  // Between the last two scans one of the processes took more than a tenth of a core; one of `left_out` does not count.
  [[nodiscard]] bool computed(const std::set<pid_t>& left_out) const;
  [[nodiscard]] std::vector<FoundRank> ranks() const;
  [[nodiscard]] const std::vector<pid_t>& processes() const { return mine_; }
  [[nodiscard]] bool knows(pid_t pid) const { return all_.contains(pid); }  // at the last scan
  [[nodiscard]] static bool has_torch(pid_t pid);  // mapped: it trains, or launches what does
  // The process that does the work of a command without ranks: a Python below shells and other processes that only wait for it.
  // Where they wait for several, and not one of these alone has LibTorch, it is the one that waits.
  [[nodiscard]] pid_t worker(pid_t command) const;
  // The rank that this process belongs to, itself or the nearest of its ancestors: `candidates` are pids of ranks. 0: it is none's.
  [[nodiscard]] pid_t owner(pid_t pid, const std::vector<pid_t>& candidates) const;

 private:
  pid_t keeper_;
  Processes all_;  // of the machine
  std::vector<pid_t> mine_;
  std::int64_t scanned_ms_ = 0;
  std::set<pid_t> computed_;
};

}  // namespace harness
