#include "harness/checks/gradients/reducer_options.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "nsa/base/text.h"

namespace harness::checks {
namespace {

constexpr const char* kMap = "Int";  // dtype of the map of used parameters
constexpr std::array<std::string_view, 4> kReal = {"Float", "Double", "Half", "BFloat16"};

struct Reduced {
  bool gradients = false;
  bool map = false;
};

class ReducerOptions {
 public:
  ReducerOptions(const Evidence& evidence, ResultBuilder& result)
      : evidence_(evidence), parallel_(evidence.the_case.scenario.parallel), result_(result) {}

  void judge() {
    std::set<int> wrong;
    std::int64_t first_wrong = 0;
    bool found = false;
    for (const int rank : all_ranks(evidence_)) {
      for (const auto& [step, reduced] : ended_steps(rank)) {
        if (!reduced.gradients || reduced.map == wants_map(rank, step)) continue;
        if (wrong.empty() || step < first_wrong) {
          first_wrong = step;
          found = reduced.map;
        }
        wrong.insert(rank);
      }
    }
    if (!wrong.empty()) result_.found(finding(wrong, first_wrong, found));
    judge_start();
    judge_views();
  }

 private:
  [[nodiscard]] std::map<std::int64_t, Reduced> ended_steps(int rank) const {
    std::map<std::int64_t, Reduced> steps;
    for (const auto& row : evidence_.collectives) {
      if (row.process != rank || row.row.step < 1 || row.row.op != "allreduce") continue;
      if (row.row.phase != "backward") continue;
      Reduced& reduced = steps[row.row.step];
      (row.row.dtype == kMap ? reduced.map : reduced.gradients) = true;
    }
    if (!steps.empty() && !evidence_.finished(rank)) steps.erase(std::prev(steps.end()));
    return steps;
  }

  // Of ranks that reduced gradients: whoever came as far has wrapped its model.
  void judge_start() {
    const std::int64_t wanted = evidence_.the_case.scenario.model.parameter_count();
    std::set<int> ranks;
    std::int64_t least = wanted;
    for (const int rank : all_ranks(evidence_)) {
      if (ended_steps(rank).empty()) continue;
      std::int64_t sent = 0;
      for (const auto& row : evidence_.collectives) {
        const Collective& op = row.row;
        if (row.process != rank || op.step != 0 || op.op != "broadcast") continue;
        if (std::find(kReal.begin(), kReal.end(), op.dtype) != kReal.end()) sent += op.count;
      }
      if (sent >= wanted) continue;
      ranks.insert(rank);
      least = std::min(least, sent);
    }
    if (ranks.empty()) return;
    Finding finding = make_finding("ROUTE.MISMATCH", "not_broadcast");
    finding.site.op = "broadcast";
    finding.site.ranks = to_ints(ranks);
    finding.facts = {{"found", least}, {"wanted", wanted}};
    result_.found(std::move(finding));
  }

  // A fact of each rank: gradients that lie in the memory of others of their bucket, and all that could. Told where values are
  // watched, in the first step.
  void judge_views() {
    std::set<int> ranks;
    std::set<int> told;
    for (const auto& row : evidence_.facts) {
      if (row.process < 0 || row.row.name != "gradients_in_buckets") continue;
      const auto of = row.row.value.find(" of ");
      if (of == std::string::npos) continue;
      const auto found = nsa::parse_int(row.row.value.substr(0, of));
      const auto all = nsa::parse_int(row.row.value.substr(of + 4));
      if (!found || !all) continue;
      told.insert(row.process);
      if (*all == 0) continue;  // each is alone in its bucket
      const bool wrong = parallel_.gradient_as_bucket_view ? *found < *all : *found == *all;
      if (wrong) ranks.insert(row.process);
    }
    for (const int rank : all_ranks(evidence_)) {
      const bool watched = evidence_.the_case.scenario.observe >= kWatchValues;
      if (!watched || told.count(rank) > 0 || ended_steps(rank).empty()) continue;
      result_.missing("whether gradients of " + process_name(rank) + " are views of buckets",
                      site_of_rank(rank));
    }
    if (ranks.empty()) return;
    const bool asked = parallel_.gradient_as_bucket_view;
    Finding finding = make_finding("ROUTE.MISMATCH", asked ? "view_missing" : "view_unasked");
    finding.site.op = "grad_sync";
    finding.site.ranks = to_ints(ranks);
    finding.site.detail["gradient_as_bucket_view"] = asked;
    result_.found(std::move(finding));
  }

  [[nodiscard]] bool wants_map(int rank, std::int64_t step) const {
    return parallel_.static_graph ? step == first_step(rank) : parallel_.find_unused;
  }

  // In the last life of the rank.
  [[nodiscard]] std::int64_t first_step(int rank) const {
    std::optional<std::int64_t> first;
    for (const auto& row : evidence_.phases) {
      if (row.process != rank || row.row.step < 1) continue;
      first = std::min(first.value_or(row.row.step), row.row.step);
    }
    return first.value_or(1);
  }

  [[nodiscard]] Finding finding(const std::set<int>& ranks, std::int64_t step, bool found) const {
    Finding finding = make_finding("ROUTE.MISMATCH", found ? "map_unasked" : "map_missing");
    finding.site.op = "grad_sync";
    finding.site.ranks = to_ints(ranks);
    finding.site.step = step;
    finding.site.detail["static_graph"] = parallel_.static_graph;
    finding.site.detail["find_unused"] = parallel_.find_unused;
    return finding;
  }

  const Evidence& evidence_;
  const nsa::ParallelConfig& parallel_;
  ResultBuilder& result_;
};

}  // namespace

void judge_reducer_options(const Evidence& evidence, ResultBuilder& result) {
  if (evidence.the_case.scenario.kind != "training") return;
  if (evidence.relaunches.empty()) {
    ReducerOptions(evidence, result).judge();
  } else {
    ReducerOptions(evidence.last_life(), result).judge();
  }
}

}  // namespace harness::checks
