#include "harness/checks/process/late_data.h"

#include <algorithm>

#include "harness/checks/result.h"

namespace harness::checks {
namespace {

// A batch is late when it takes this many times as long as the slowest forward or optimizer phase of its rank, and longer than
// the machine's own hiccups (a page cache that is cold, a process that is not scheduled).
constexpr double kTimesTheSlowestPhase = 5.0;
constexpr std::int64_t kHiccupMs = 3'000;

struct Span {
  std::string phase;
  std::int64_t step = 0;
  std::int64_t ms = 0;
};

// Each phase of one rank until its next one began; what it was in at its end is left out.
std::vector<Span> spans_of(const Evidence& evidence, int rank) {
  std::vector<const From<Phase>*> begun;
  for (const auto& row : evidence.phases) {
    if (row.process == rank) begun.push_back(&row);
  }
  std::stable_sort(
      begun.begin(), begun.end(), [](const auto* a, const auto* b) { return a->t_ms < b->t_ms; });
  std::vector<Span> spans;
  for (std::size_t i = 0; i + 1 < begun.size(); ++i) {
    spans.push_back({begun[i]->row.phase, begun[i]->row.step, begun[i + 1]->t_ms - begun[i]->t_ms});
  }
  return spans;
}

Finding finding_of(int rank, const Span& late, std::int64_t computing_ms) {
  Finding finding = make_finding("SLOW.DATA", "late");
  finding.site.ranks = {rank};
  finding.site.step = late.step;
  finding.site.phase = "data";
  finding.site.op = "data";
  finding.site.detail["waited_ms"] = late.ms;
  finding.site.detail["longest_computation_ms"] = computing_ms;
  return finding;
}

}  // namespace

// A backward may wait for a peer: only what a rank does by itself is compared.
std::vector<Finding> late_data(const Evidence& evidence) {
  std::vector<Finding> findings;
  for (const int rank : all_ranks(evidence)) {
    Span late;
    std::int64_t computing = 0;
    for (const Span& span : spans_of(evidence, rank)) {
      if (span.phase == "data" && span.ms > late.ms) late = span;
      if (span.phase == "forward" || span.phase == "optimizer") {
        computing = std::max(computing, span.ms);
      }
    }
    const bool is_late =
        late.ms > kHiccupMs &&
        static_cast<double>(late.ms) > kTimesTheSlowestPhase * static_cast<double>(computing);
    if (is_late) findings.push_back(finding_of(rank, late, computing));
  }
  return findings;
}

}  // namespace harness::checks
