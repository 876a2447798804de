#include "harness/cli/nightly/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "harness/cli/running/case_needs.h"
#include "harness/run/cases_at_once.h"
#include "harness/store/identity.h"

namespace harness::cli {
namespace {

constexpr const char* kCards = "gpu";

constexpr const char* kMainJob = "ddp_onestep";

enum class Turn { main_job, first_of_scenario, first_of_planted, others, standstills, not_here };

struct Placed {
  NightCase one;
  double cost = 0.0;        // seconds of the whole machine
  std::size_t cheaper = 0;  // so many cases of its scenario cost less
};

double machine_seconds(const NightCase& one, const Machine& machine) {
  const Needs needs = needs_of(one.the_case.scenario);
  const double cores = std::max(1, machine.cores);
  return one.seconds * (needs.alone ? 1.0 : std::min(1.0, needs.cores / cores));
}

std::vector<Placed> cases_of(const std::string& file,
                             ScenarioOptions options,
                             const std::string& profile,
                             const Machine& machine,
                             const Manifest& manifest,
                             const ExpectedSeconds& expected) {
  options.profile = profile;
  std::vector<Placed> placed;
  for (Case& the_case : load_cases(file, options, manifest)) {
    NightCase one;
    one.history_id = identity_of(case_to_json(the_case)).history_id;
    one.lacking = missing_requirement(the_case.scenario, machine, manifest);
    one.seconds = expected(the_case, one.history_id);
    one.the_case = std::move(the_case);
    const double cost = machine_seconds(one, machine);
    placed.push_back({std::move(one), cost});
  }
  return placed;
}

void count_cheaper(std::vector<Placed>& all) {
  std::map<std::string, std::vector<Placed*>> of_scenario;
  for (Placed& placed : all) {
    if (placed.one.lacking.empty()) {
      of_scenario[placed.one.the_case.scenario.name].push_back(&placed);
    }
  }
  for (auto& [name, cases] : of_scenario) {
    std::stable_sort(cases.begin(), cases.end(), [](const Placed* a, const Placed* b) {
      return a->cost < b->cost;
    });
    for (std::size_t i = 0; i < cases.size(); ++i) cases[i]->cheaper = i;
  }
}

Turn turn_of(const Placed& placed) {
  const Scenario& scenario = placed.one.the_case.scenario;
  if (!placed.one.lacking.empty()) return Turn::not_here;
  if (scenario.name == kMainJob) return Turn::main_job;
  if (stands_still(scenario)) return Turn::standstills;
  if (placed.cheaper > 0) return Turn::others;
  return scenario.fault ? Turn::first_of_planted : Turn::first_of_scenario;
}

// The second case of a scenario tells half as much as the first, and a planted fault half as much as what it is planted into. By
// powers of two: what a case took scatters from night to night, and the order should not. Cases that run alone stand together:
// between others each of them would wait until all of those have ended.
auto importance(const Placed& placed) {
  const Scenario& scenario = placed.one.the_case.scenario;
  const double worth = (scenario.fault ? 0.5 : 1.0) / static_cast<double>(placed.cheaper + 1);
  return std::tuple(turn_of(placed), std::ilogb(placed.cost / worth), needs_of(scenario).alone);
}

// By its first digits: they are those of a hash, so every part has about as many.
bool is_in(const Part& shard, const NightCase& one) {
  constexpr std::size_t kDigits = 8;
  constexpr int kHexadecimal = 16;
  const auto number = std::stoul(one.history_id.substr(0, kDigits), nullptr, kHexadecimal);
  return number % static_cast<unsigned long>(shard.parts) ==
         static_cast<unsigned long>(shard.part - 1);
}

}  // namespace

bool stands_still(const Scenario& scenario) {
  const auto outcome = scenario.expect ? scenario.expect->outcome : std::nullopt;
  return outcome == Outcome::hang || outcome == Outcome::slow;
}

std::vector<NightCase> night_cases(const std::vector<std::string>& files,
                                   const ScenarioOptions& options,
                                   const Machine& machine,
                                   const Manifest& manifest,
                                   const Part& shard,
                                   const ExpectedSeconds& expected) {
  std::vector<Placed> all;
  const auto add = [&](const std::string& file, const std::string& profile) {
    std::vector<Placed> placed = cases_of(file, options, profile, machine, manifest, expected);
    const bool runs = std::any_of(
        placed.begin(), placed.end(), [](const Placed& at) { return at.one.lacking.empty(); });
    std::move(placed.begin(), placed.end(), std::back_inserter(all));
    return runs;
  };
  for (const std::string& file : files) {
    if (has_profile(file, kCards) && add(file, kCards)) continue;
    (void)add(file, kNoProfile);
  }
  count_cheaper(all);
  std::stable_sort(all.begin(), all.end(), [](const Placed& a, const Placed& b) {
    return importance(a) < importance(b);
  });
  std::vector<NightCase> night;
  for (Placed& placed : all) {
    if (is_in(shard, placed.one)) night.push_back(std::move(placed.one));
  }
  return night;
}

}  // namespace harness::cli
