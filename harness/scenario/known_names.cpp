#include "harness/scenario/known_names.h"

#include <algorithm>

#include "nsa/base/yaml.h"

namespace harness {

void require_known_names(const Case& the_case,
                         const std::vector<std::string>& checks,
                         const Manifest& manifest,
                         const std::string& where) {
  const auto require =
      [&](const char* what, const std::string& name, const std::vector<std::string>& known) {
        if (std::find(known.begin(), known.end(), name) != known.end()) return;
        nsa::throw_unknown_name(nsa::Location{where}, what, name, known);
      };
  const Scenario& scenario = the_case.scenario;
  require("kind", scenario.kind, manifest.kinds);
  for (const std::string& check : scenario.checks) require("check", check, checks);
  std::vector<std::string> seams;
  for (const auto& entry : manifest.seams) seams.push_back(entry.first);
  for (const auto& [seam, implementation] : scenario.route) {
    require("seam of route", seam, seams);
    require("implementation", implementation, manifest.seams.at(seam));
  }
  if (!scenario.fault) return;
  std::vector<std::string> faults;
  for (const FaultInfo& fault : manifest.faults) faults.push_back(fault.name);
  require("fault", scenario.fault->name, faults);
  const std::string& form = scenario.fault->form;
  if (!form.empty()) require("form", form, manifest.fault_named(scenario.fault->name).forms);
}

}  // namespace harness
