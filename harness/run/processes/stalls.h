// Which ranks of a command are stalled: their main threads have not given up the processor of their own will for a second. A
// training gives it up in every step, where it waits for the thread of the backward, for data, or for a lock. Who waits for the
// card in a loop does not, and who waits for what does not come does so once.
//
// A stalled rank may just compute for long: this tells when it is worth asking, and nothing else. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace harness {

class Stalls {
 public:
  // `switches`: of the rank's main thread, as counted so far; -1: not readable, and then it is never stalled.
  void seen(int rank, std::int64_t switches, std::int64_t now_ms);
  [[nodiscard]] bool all_stalled(const std::set<int>& ranks, std::int64_t now_ms) const;

 private:
  struct Seen {
    std::int64_t switches = -1;
    std::int64_t since_ms = 0;
  };
  std::map<int, Seen> ranks_;
};

}  // namespace harness
