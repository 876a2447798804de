#include "harness/run/processes/stalls.h"

#include <algorithm>

namespace harness {
namespace {

constexpr std::int64_t kStalledMs = 1'000;  // longer than the steps of most trainings

}  // namespace

void Stalls::seen(int rank, std::int64_t switches, std::int64_t now_ms) {
  const auto [at, is_new] = ranks_.try_emplace(rank, Seen{switches, now_ms});
  if (!is_new && at->second.switches != switches) at->second = {switches, now_ms};
}

bool Stalls::all_stalled(const std::set<int>& ranks, std::int64_t now_ms) const {
  const auto is_stalled = [&](int rank) {
    const auto at = ranks_.find(rank);
    return at != ranks_.end() && at->second.switches >= 0 &&
           now_ms - at->second.since_ms >= kStalledMs;
  };
  return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), is_stalled);
}

}  // namespace harness
