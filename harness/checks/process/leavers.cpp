#include "harness/checks/process/leavers.h"

#include <algorithm>
#include <limits>

#include "harness/checks/result.h"

namespace harness::checks {
namespace {

std::int64_t ended_at(const Evidence& evidence, int rank) {
  for (const auto& row : evidence.exited) {
    if (row.row.process_ended == rank) return row.t_ms;
  }
  return std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::set<int> leavers(const Evidence& evidence, const std::set<int>& alone) {
  std::set<int> left;
  if (alone.empty()) return left;
  for (const int rank : all_ranks(evidence)) {
    const Exited* const exited = evidence.exit_of(rank);
    const bool well = exited != nullptr && exited->signal == 0 && exited->exit_code == 0;
    if (!well || alone.contains(rank)) continue;
    const bool before_all = std::all_of(alone.begin(), alone.end(), [&](int peer) {
      return ended_at(evidence, rank) < ended_at(evidence, peer);
    });
    if (before_all) left.insert(rank);
  }
  return left;
}

}  // namespace harness::checks
