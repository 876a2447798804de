// Who can end a wait: the holder of a lock on a file, the other end of a pipe or of a TCP connection, or a file system. As far as
// /proc of this machine tells.
#pragma once

#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "harness/run/looks/proc_look.h"
#include "harness/run/looks/system_call.h"

namespace harness {

struct OtherEnd {
  std::string told;  // "process 4711 (python), which holds the lock"; "" where nothing is known
  std::vector<pid_t> holders;  // processes of this machine, without the one that waits
  // The other end is known, and it was not started together with the process that waits. So the processes of the command do not
  // show whether it still works.
  bool outside = false;
};

class OtherEnds {
 public:
  // REQUIRES: `all` outlives this.
  explicit OtherEnds(const Processes& all) : all_(all) {}

  // Of a thread of process `pid` that waits in `call`.
  [[nodiscard]] OtherEnd of(pid_t pid, const WaitingCall& call);

 private:
  OtherEnd of_lock(pid_t pid) const;
  OtherEnd of_descriptor(pid_t pid, int descriptor);
  OtherEnd of_connection(pid_t pid, const std::string& inode);
  OtherEnd among(pid_t pid, const std::vector<pid_t>& holders, const std::string& how) const;
  [[nodiscard]] bool started_together(pid_t one, pid_t other) const;
  [[nodiscard]] std::string name_of(pid_t pid) const;
  const std::vector<pid_t>& holders_of(const std::string& target);

  const Processes& all_;
  std::map<std::string, std::vector<pid_t>>
      holders_;  // by what a descriptor points to; read when first needed
};

}  // namespace harness
