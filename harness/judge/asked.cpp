#include "harness/judge/asked.h"

#include <algorithm>
#include <set>

#include "harness/evidence/flight.h"
#include "harness/evidence/not_hooked.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

// Of two ranks: PyTorch's flight recorder tells of their collectives then.
bool has_flights(const Evidence& evidence) {
  std::set<int> ranks;
  for (const auto& row : evidence.facts) {
    if (row.process >= 0 && row.row.name == kFlightFact) ranks.insert(row.process);
  }
  return ranks.size() > 1;
}

}  // namespace

bool is_asked(const std::string& check, const Evidence& evidence, std::span<const Check> checks) {
  const Scenario& scenario = evidence.the_case.scenario;
  // Without the two lines in its script, a command is seen from outside alone; so is one with a rank that was not hooked.
  const bool from_outside =
      scenario.is_command() && (evidence.hellos.empty() || !not_hooked(evidence).empty());
  const bool is_seen = check == "process_clean" || check == "progress" ||
                       (check == kSaysScope && scenario.command.watch) ||
                       (check == "collectives_agree" && has_flights(evidence));
  if (from_outside && !is_seen) return false;
  if (check == kComparesLevels && evidence.other_levels.empty()) return false;
  const auto known = std::find_if(
      checks.begin(), checks.end(), [&](const Check& one) { return one.name == check; });
  return known == checks.end() || scenario.observe >= known->observe;
}

// A command of the user's own whose script does not have the two lines: the verdict is on its end alone.
bool is_seen_from_outside(const Scenario& scenario, const Judgement& judgement) {
  return scenario.is_command() && !judgement.verdicts.empty() &&
         !not_asked(scenario, judgement).empty();
}

std::vector<std::string> not_asked(const Scenario& scenario, const Judgement& judgement) {
  std::vector<std::string> names = scenario.checks;
  std::erase_if(names, [&](const std::string& name) {
    return std::any_of(judgement.verdicts.begin(),
                       judgement.verdicts.end(),
                       [&](const CheckResult& verdict) { return verdict.check == name; });
  });
  return names;
}

std::string why_not_asked(const Scenario& scenario, const std::string& check) {
  if (check == kComparesLevels) return "levels are compared where the last of them runs";
  return scenario.observe < kWatchValues ? "at observe " + std::to_string(scenario.observe) : "";
}

std::string not_asked_text(const Scenario& scenario, const Judgement& judgement) {
  std::vector<std::string> names = not_asked(scenario, judgement);
  const bool compares_later = std::erase(names, kComparesLevels) > 0;
  std::vector<std::string> parts;
  if (is_seen_from_outside(scenario, judgement)) {
    parts.emplace_back("weights, gradients and NaN were not looked at");
  }
  if (scenario.observe < kWatchValues && !names.empty()) {
    parts.push_back("not asked at observe " + std::to_string(scenario.observe) + ": " +
                    nsa::join(names));
  }
  if (compares_later) {
    parts.push_back(kComparesLevels + (": " + why_not_asked(scenario, kComparesLevels)));
  }
  return nsa::join(parts, "; ");
}

bool is_fully_asked(const Scenario& scenario, const Judgement& judgement) {
  std::vector<std::string> names = not_asked(scenario, judgement);
  std::erase(names, kComparesLevels);
  return names.empty() ||
         (scenario.observe == kWatchValues && !is_seen_from_outside(scenario, judgement));
}

bool is_compared_later(const Scenario& scenario, const Judgement& judgement) {
  const std::vector<std::string> names = not_asked(scenario, judgement);
  return std::find(names.begin(), names.end(), kComparesLevels) != names.end();
}

}  // namespace harness
