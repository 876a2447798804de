// Nobody else's work may be on a card whose times are taken. Three figures of the driver tell of it, and any of them may be untold
// (a container hides processes, a card that is divided has no load of its own): what was not told is said, and where nothing was,
// nothing was seen.
#include <algorithm>
#include <optional>

#include "harness/checks/process/machine_parts.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// Of a second in which the rank lets its card rest: at the resolution of the figure a tool that asks the driver may show.
constexpr int kIdlePercent = 5;
// A context on the card takes more than this; what the rank's own libraries load after its first steps takes less.
constexpr double kContextBytes = 256.0 * 1024.0 * 1024.0;
// In the first ones kernels and libraries are loaded.
constexpr std::int64_t kLoadingSteps = 2;

struct SeenOnCard {
  bool load = false;
  bool memory = false;
  bool processes = false;
  int busiest = 0;
  double before = 0.0;       // of others, before the rank had anything there
  double most_beside = 0.0;  // beside what the rank's allocator holds, in its steps
  double least_beside = 0.0;
  int others = 0;
};

SeenOnCard seen_on_card(const std::vector<CardLook>& looks) {
  SeenOnCard seen;
  std::optional<double> least;
  for (const CardLook& at : looks) {
    const bool before = at.step == 0;
    if (at.idle && at.busy_percent >= 0) {
      seen.load = true;
      seen.busiest = std::max(seen.busiest, at.busy_percent);
    }
    if (at.processes >= 0) {
      seen.processes = true;
      seen.others = std::max(seen.others, at.processes - (before ? 0 : 1));
    }
    if (at.used_bytes < 0 || at.own_bytes < 0) continue;
    const auto beside = static_cast<double>(at.used_bytes - at.own_bytes);
    if (before) {
      seen.memory = true;
      seen.before = std::max(seen.before, beside);
    } else if (at.step > kLoadingSteps) {
      least = std::min(least.value_or(beside), beside);
      seen.most_beside = std::max(seen.most_beside, beside);
    }
  }
  seen.least_beside = least.value_or(seen.most_beside);
  return seen;
}

std::string untold_of_card(const SeenOnCard& seen) {
  std::vector<std::string> what;
  if (!seen.load) what.push_back("how busy it was");
  if (!seen.memory) what.push_back("its memory");
  if (!seen.processes) what.push_back("its processes");
  return what.empty() ? "" : " (the driver did not tell " + nsa::join(what) + ")";
}

}  // namespace

std::string judge_card_looks(const Evidence& evidence, ResultBuilder& result) {
  const Scenario& scenario = evidence.the_case.scenario;
  if (scenario.kind != "throughput" || scenario.parallel.device != nsa::Device::cuda) return "";
  std::vector<CardLook> looks;
  bool before = false;
  bool after = false;
  for (const auto& look : evidence.card_looks) {
    if (look.process != 0) continue;
    looks.push_back(look.row);
    before = before || (look.row.idle && look.row.step == 0);
    after = after || (look.row.idle && look.row.step > 0);
  }
  if (!before)
    result.missing("a look at the card before the first step" + ended_early(evidence, 0));
  if (!after) result.missing("a look at the card after the last step" + ended_early(evidence, 0));
  const SeenOnCard seen = seen_on_card(looks);
  if (!looks.empty() && !seen.load && !seen.memory && !seen.processes) {
    result.missing(
        "what the driver says of the card: it tells neither load nor memory nor processes");
  }
  const double rise = seen.most_beside - seen.least_beside;
  if (seen.load) {
    result.measured("busy_at_rest_percent", static_cast<double>(seen.busiest), kIdlePercent);
  }
  if (seen.memory) {
    result.measured("memory_of_others_before_bytes", seen.before, kContextBytes);
    result.measured("memory_of_others_rise_bytes", rise, kContextBytes);
  }
  const bool busy = seen.busiest > kIdlePercent;
  const bool held = seen.before > kContextBytes;
  const bool came = rise > kContextBytes;
  if (busy || held || came || seen.others > 0) {
    Finding finding = make_finding("INFRA.GPU_BUSY", "others");
    finding.site.ranks = {0};
    if (busy) finding.facts["busy"] = seen.busiest;
    if (held) finding.facts["held_bytes"] = seen.before;
    if (came) finding.facts["came_bytes"] = rise;
    if (seen.others > 0) finding.facts["processes"] = seen.others;
    result.found(std::move(finding));
  }
  return "nobody else was seen on the card" + untold_of_card(seen);
}

}  // namespace harness::checks
