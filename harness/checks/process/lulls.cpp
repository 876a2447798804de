#include "harness/checks/process/lulls.h"

#include <algorithm>
#include <optional>

#include "harness/checks/process/rank_state.h"
#include "harness/checks/process/standstill_findings.h"
#include "harness/checks/result.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// A computation is its rank's own when its twin, which does the same one, never needed a fraction of that time, and when the rank
// had a processor for it: a busy machine makes any operation long.
constexpr std::int64_t kTimesTheTwin = 4;
constexpr double kOwnsAProcessor = 0.5;

struct Lull {
  Window window;  // from the suspicion until it moved again
  std::int64_t still_ms = 0;
};

// The controller records when a suspected case moved again, and after how long.
std::vector<Lull> all_lulls(const Evidence& evidence) {
  std::vector<Lull> lulls;
  for (const auto& suspect : evidence.suspects) {
    std::optional<Lull> ended;
    for (const auto& fact : evidence.facts) {
      if (fact.process != kController || fact.row.name != "moved_again_ms") continue;
      const auto after_ms = nsa::parse_int(fact.row.value);
      if (!after_ms || fact.t_ms < suspect.t_ms) continue;
      if (ended && ended->window.to_ms <= fact.t_ms) continue;
      ended = {{suspect.t_ms, fact.t_ms}, suspect.row.still_ms + *after_ms};
    }
    if (ended) lulls.push_back(*ended);
  }
  std::sort(lulls.begin(), lulls.end(), [](const Lull& a, const Lull& b) {
    return a.window.from_ms < b.window.from_ms;
  });
  return lulls;
}

std::optional<std::int64_t> longest_gap_of_twin(const Evidence& evidence) {
  std::optional<std::int64_t> longest;
  for (const auto& row : evidence.heartbeats) {
    if (row.process != kTwin) continue;
    longest = std::max(longest.value_or(0), row.row.longest_gap_ms);
  }
  return longest;
}

bool is_its_own(const Evidence& evidence, const RankState& rank, const Lull& lull) {
  const Looked looked = rank.looked();
  const auto cpu_ms = static_cast<double>(looked.after->cpu_ms - looked.before->cpu_ms);
  const auto twin_ms = longest_gap_of_twin(evidence);
  return twin_ms && cpu_ms >= kOwnsAProcessor * static_cast<double>(looked.wall_ms) &&
         kTimesTheTwin * *twin_ms <= lull.still_ms;
}

std::string note_of(const RankState& rank, const Lull& lull, const std::string& did) {
  return "nothing moved for " + std::to_string(lull.still_ms) + " ms while " +
         process_name(rank.rank) + " " + did;
}

void judge_rank(const Evidence& evidence, const RankState& rank, const Lull& lull, Lulls& lulls) {
  const Doing doing = rank.doing();
  const bool computed = doing == Doing::computing;
  // Nobody says how long a step of a command takes: it may sleep or compute as it likes.
  const bool may = evidence.the_case.scenario.is_command();
  if (doing == Doing::sleeping && is_compiling(rank.looks[1]->row)) {
    lulls.notes.push_back(note_of(rank, lull, "waited for another process that compiled"));
  } else if (may && doing == Doing::sleeping) {
    lulls.notes.push_back(note_of(rank, lull, "slept"));
  } else if (doing == Doing::sleeping || (computed && !may && is_its_own(evidence, rank, lull))) {
    Finding finding = slow_host(computed ? "computed" : "asleep", {rank});
    finding.facts["still_ms"] = lull.still_ms;
    finding.facts["seen"] = told(rank.looked());
    if (computed) finding.facts["twin_ms"] = *longest_gap_of_twin(evidence);
    lulls.findings.push_back(std::move(finding));
  } else if (computed) {
    lulls.notes.push_back(note_of(rank, lull, "computed"));
  } else if (doing == Doing::child) {
    lulls.notes.push_back(note_of(rank, lull, "waited for a child that computed"));
  } else if (doing == Doing::connecting) {
    lulls.notes.push_back(note_of(rank, lull, "waited for NCCL to connect it to its peers"));
  } else if (doing == Doing::disk) {
    lulls.notes.push_back(note_of(rank, lull, "read or wrote a disk"));
  }
}

}  // namespace

Lulls lulls_of(const Evidence& evidence) {
  Lulls lulls;
  for (const Lull& lull : all_lulls(evidence)) {
    for (const int number : all_ranks(evidence)) {
      const RankState rank = state_of_rank(evidence, number, lull.window);
      if (rank.looked_twice()) judge_rank(evidence, rank, lull, lulls);
    }
  }
  return lulls;
}

}  // namespace harness::checks
