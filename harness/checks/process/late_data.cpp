#include "harness/checks/process/late_data.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "harness/checks/lives.h"
#include "harness/checks/result.h"

namespace harness::checks {
namespace {

// A batch is late when it takes this many times as long as the slowest forward or optimizer phase of its rank, and longer than
// the machine's own hiccups (a page cache that is cold, a process that is not scheduled).
constexpr double kTimesTheSlowestPhase = 5.0;
constexpr std::int64_t kHiccupMs = 3'000;
// A hiccup is no habit: where batches of so many steps take longer than all the rest of their step in the middle of them, a
// hiccup would have to hit every second step. Shorter ones are within what the clock of a phase, in ms, and a scheduler show.
constexpr std::size_t kFewestSteps = 8;
constexpr std::int64_t kFewestMs = 20;

struct Span {
  std::string phase;
  std::int64_t step = 0;
  std::int64_t ms = 0;
};

// Each phase of one rank until its next one began; what it was in at the end of each life is left out.
std::vector<Span> spans_of(const Evidence& evidence, int rank) {
  std::vector<const From<Phase>*> begun;
  for (const auto& row : evidence.phases) {
    if (row.process == rank) begun.push_back(&row);
  }
  std::stable_sort(
      begun.begin(), begun.end(), [](const auto* a, const auto* b) { return a->t_ms < b->t_ms; });
  std::vector<Span> spans;
  for (std::size_t i = 0; i + 1 < begun.size(); ++i) {
    if (life_at(evidence, begun[i]->t_ms) != life_at(evidence, begun[i + 1]->t_ms)) continue;
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

// Of one step: until the data came, and from there on.
struct StepTime {
  std::int64_t data_ms = 0;
  std::int64_t rest_ms = 0;
};

bool is_of_a_step(const std::string& phase) {
  return phase == "forward" || phase == "backward" || phase == "optimizer";
}

std::int64_t median(std::vector<std::int64_t> of) {
  const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::nth_element(of.begin(), middle, of.end());
  return *middle;
}

// One late batch among many is no habit; a loader that is slower than the training is one from step to step.
std::optional<Finding> always_late(int rank, const std::vector<Span>& spans) {
  std::map<std::int64_t, StepTime> steps;
  for (const Span& span : spans) {
    if (span.phase == "data") steps[span.step].data_ms += span.ms;
    if (is_of_a_step(span.phase)) steps[span.step].rest_ms += span.ms;
  }
  std::vector<std::int64_t> data;
  std::vector<std::int64_t> rest;
  for (const auto& [step, time] : steps) {
    data.push_back(time.data_ms);
    rest.push_back(time.rest_ms);
  }
  if (data.size() < kFewestSteps) return std::nullopt;
  const std::int64_t waited = median(data);
  const std::int64_t computed = median(rest);
  if (waited < kFewestMs || waited <= computed) return std::nullopt;
  Finding finding = make_finding("SLOW.DATA", "always");
  finding.site.ranks = {rank};
  finding.site.phase = "data";
  finding.site.op = "data";
  finding.site.detail["waited_ms"] = waited;
  finding.site.detail["computed_ms"] = computed;
  finding.facts["steps"] = data.size();
  return finding;
}

}  // namespace

// A backward may wait for a peer: only what a rank does by itself is compared.
std::vector<Finding> late_data(const Evidence& evidence) {
  std::vector<Finding> findings;
  for (const int rank : all_ranks(evidence)) {
    Span late;
    std::int64_t computing = 0;
    const std::vector<Span> spans = spans_of(evidence, rank);
    for (const Span& span : spans) {
      if (span.phase == "data" && span.ms > late.ms) late = span;
      if (span.phase == "forward" || span.phase == "optimizer") {
        computing = std::max(computing, span.ms);
      }
    }
    const bool is_late =
        late.ms > kHiccupMs &&
        static_cast<double>(late.ms) > kTimesTheSlowestPhase * static_cast<double>(computing);
    if (is_late) {
      findings.push_back(finding_of(rank, late, computing));
    } else if (auto always = always_late(rank, spans)) {
      findings.push_back(std::move(*always));
    }
  }
  return findings;
}

}  // namespace harness::checks
