#include "harness/cli/nightly/plan.h"

#include <algorithm>
#include <tuple>

#include "harness/cli/case_needs.h"
#include "harness/run/admission.h"
#include "harness/store/identity.h"

namespace harness::cli {
namespace {

constexpr const char* kCards = "gpu";

struct Placed {
  NightCase one;
  std::size_t index = 0;  // among the cases of its scenario and profile
};

std::vector<Placed> cases_of(const std::string& file,
                             ScenarioOptions options,
                             const std::string& profile,
                             const Machine& machine,
                             const Manifest& manifest) {
  options.profile = profile;
  std::vector<Placed> placed;
  for (Case& the_case : load_cases(file, options, manifest)) {
    NightCase one;
    one.history_id = identity_of(case_to_json(the_case)).history_id;
    one.lacking = missing_requirement(the_case.scenario, machine, manifest);
    one.the_case = std::move(the_case);
    placed.push_back({std::move(one), placed.size()});
  }
  return placed;
}

// Cases that run alone stand together: between others each of them would wait until all of those have ended.
auto importance(const Placed& placed) {
  const Scenario& scenario = placed.one.the_case.scenario;
  return std::tuple(placed.index, scenario.fault.has_value(), needs_of(scenario).alone);
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

std::vector<NightCase> night_cases(const std::vector<std::string>& files,
                                   const ScenarioOptions& options,
                                   const Machine& machine,
                                   const Manifest& manifest,
                                   const Part& shard) {
  std::vector<Placed> all;
  const auto add = [&](const std::string& file, const std::string& profile) {
    std::vector<Placed> placed = cases_of(file, options, profile, machine, manifest);
    const bool runs = std::any_of(
        placed.begin(), placed.end(), [](const Placed& at) { return at.one.lacking.empty(); });
    std::move(placed.begin(), placed.end(), std::back_inserter(all));
    return runs;
  };
  for (const std::string& file : files) {
    if (has_profile(file, kCards) && add(file, kCards)) continue;
    (void)add(file, kNoProfile);
  }
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
