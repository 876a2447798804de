// Where a rank was at some time of a case, and what two looks at it from outside show.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/evidence/standstill.h"
#include "harness/judge/check.h"

namespace harness::checks {

struct PendingCollective {  // the oldest one that a rank entered and did not leave
  std::string group;
  std::int64_t sequence = 0;
  std::int64_t step = 0;
  std::string phase;  // in which the rank issued it
  std::string op;
  bool of_flight_recorder = false;  // PyTorch's: the rank itself tells of no collective
};

struct RankState {
  int rank = 0;
  std::string phase;
  std::int64_t step = 0;
  int layer = -1;
  // 0 and 1 with stacks; 2 and 3 of a case that was watched further
  std::array<const From<Observation>*, 4> looks{};
  // As the rank tells; where the rank tells of none at all, as PyTorch's flight recorder does.
  std::optional<PendingCollective> pending;
  std::optional<PendingCollective> of_recorder;  // whatever the rank tells
  std::int64_t polls_ms = 0;                     // Looked::polls_ms
  bool held = false;          // by its peers, as PyTorch's flight recorder has it
  std::string unread_flight;  // why the newest dump of that recorder could not be read

  [[nodiscard]] bool looked_twice() const { return looks[0] != nullptr && looks[1] != nullptr; }
  [[nodiscard]] Looked looked() const;
  [[nodiscard]] Doing doing() const { return slowed_by(looked()); }
};

struct Window {  // of time, both ends included
  std::int64_t from_ms = 0;
  std::int64_t to_ms = std::numeric_limits<std::int64_t>::max();
};

// The newest looks within the window, and where the rank was at look 1, or at the end of the window where there is none. A
// collective that ended later was pending.
[[nodiscard]] RankState state_of_rank(const Evidence& evidence, int rank, const Window& window);

// All have met at the rendezvous, and NCCL connects them.
[[nodiscard]] bool all_connect(const std::vector<RankState>& ranks);

[[nodiscard]] std::vector<Looked> looked_at(const std::vector<RankState>& ranks);
[[nodiscard]] std::vector<int> numbers_of(const std::vector<RankState>& ranks);

// Frames of the main thread at the last look; "" where nobody looked: the innermost one of the user's own, and what it is in;
// without one the innermost five.
[[nodiscard]] std::string top_frames(const RankState& rank);

// The command that would let its stack be read; "" where there is a stack, of Python or of the kernel, and where none is known.
[[nodiscard]] std::string way_to_stacks(const RankState& rank);

// "Ranks 0, 2: step (train.py:26): dist.all_reduce(x); rank 1: log (train.py:31): with lock": the user's own lines. Of a rank
// without one the innermost frame; "" if no rank has a frame.
[[nodiscard]] std::string lines_of(const std::vector<RankState>& ranks);

// The same of all ranks at their end: where the exception came from that ended one, else where it was last seen to stand.
[[nodiscard]] std::string last_lines_of(const Evidence& evidence);

// The same of a look alone, before anything is judged: of a process without a stack what it waits in. "": nothing was looked at.
// `with_children`: also what a child of it waits in.
[[nodiscard]] std::string standing(const Evidence& looked, bool with_children = true);

// "its child pt_data_worker 4711 waits in futex without a time limit, in log (train.py:31): with lock": of children that wait
// without a limit, and are neither helpers of Python nor servers; "" if there is none.
[[nodiscard]] std::string waiting_children(const RankState& rank);

// Who can end the wait of the rank (ThreadStack::other_end), "" where that is not known.
[[nodiscard]] std::string other_end(const RankState& rank);

// "ranks 0-1" of those whose wait could not be read from outside; "" where there is none.
[[nodiscard]] std::string unread_waits(const std::vector<RankState>& ranks);

}  // namespace harness::checks
