// How many operators LibTorch ran in this process: each one, forward and backward, on any thread. Counting never stops, takes no
// lock, and costs an addition an operator. Before it runs an operator LibTorch asks whether somebody records it; what it asks
// stands here in front of LibTorch's own function of that name, counts, and hands on. A callback of RecordFunction is told the
// same, but LibTorch describes the operator for it: that costs more than many operators do.
#pragma once

#include <cstdint>

namespace harness {

struct OperatorCount {
  std::int64_t forward = 0;
  std::int64_t backward = 0;  // nodes of autograd's graph
  [[nodiscard]] std::int64_t all() const { return forward + backward; }
  bool operator==(const OperatorCount&) const = default;
};

// Since the process began.
[[nodiscard]] OperatorCount operators_run();

// Whether this process's LibTorch asks here: runs an operator and looks. One that was linked with its own functions bound to itself
// does not.
[[nodiscard]] bool operators_are_seen();

// For a LibTorch that does not ask here: a callback of RecordFunction adds to the same counts, and never ends.
void count_operators_by_callback();

}  // namespace harness
