#include "harness/checks/gradients/travelling_type.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "nsa/base/text.h"

namespace harness::checks {
namespace {

using RankAndStep = std::pair<int, std::int64_t>;
using Types = std::set<std::string>;

// Of every rank and step with a bucket plan.
std::map<RankAndStep, Types> asked_types(const Evidence& evidence) {
  const bool compressed = evidence.the_case.scenario.parallel.compress == "bf16";
  std::map<RankAndStep, Types> asked;
  for (const auto& [process, t_ms, row] : evidence.buckets) {
    if (process >= 0) asked[{process, row.step}].insert(compressed ? "BFloat16" : row.dtype);
  }
  return asked;
}

std::string text_of(const Types& types) {
  return nsa::join(std::vector<std::string>(types.begin(), types.end()));
}

struct OtherType {  // of one step
  std::set<int> ranks;
  Types asked;
  Types found;
  std::int64_t sequence = 0;  // the first
  std::string phase;
  std::int64_t all_reduces = 0;
};

void take(OtherType& other, int rank, const Types& asked, const Collective& row) {
  if (other.all_reduces == 0 || row.sequence < other.sequence) {
    other.sequence = row.sequence;
    other.phase = row.phase;
  }
  ++other.all_reduces;
  other.ranks.insert(rank);
  other.asked.insert(asked.begin(), asked.end());
  other.found.insert(row.dtype);
}

}  // namespace

std::optional<Finding> other_type_travels(const Evidence& evidence) {
  const std::map<RankAndStep, Types> asked = asked_types(evidence);
  std::map<std::int64_t, OtherType> steps;
  for (const auto& [process, t_ms, row] : evidence.collectives) {
    const auto at = asked.find({process, row.step});
    if (at == asked.end() || !sums_gradients(row) || at->second.count(row.dtype) > 0) continue;
    take(steps[row.step], process, at->second, row);
  }
  if (steps.empty()) return std::nullopt;
  const auto& [step, other] = *steps.begin();
  Finding finding = make_finding("COMM.DTYPE", "record");
  finding.site.step = step;
  finding.site.ranks = to_ints(other.ranks);
  finding.site.op = "grad_sync";
  finding.site.phase = other.phase;
  finding.site.sequence = other.sequence;
  finding.facts = {{"asked", text_of(other.asked)},
                   {"found", text_of(other.found)},
                   {"all_reduces", other.all_reduces}};
  return finding;
}

}  // namespace harness::checks
