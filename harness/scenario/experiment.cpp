#include "harness/scenario/experiment.h"

#include "harness/scenario/case_json.h"

namespace harness {

Case experiment_on(const Case& base, const Scenario& changed, const std::string& name) {
  Case experiment = base;
  experiment.scenario = changed;
  experiment.scenario.expect.reset();  // it is no failure that somebody waits for
  experiment.scenario.known.reset();
  experiment.point.emplace_back(kExperimentAxis, name);
  experiment.id = case_id(experiment);
  return case_from_json(case_to_json(experiment), "the experiment " + name);
}

bool is_experiment(const Case& the_case) {
  return !the_case.point.empty() && the_case.point.back().first == kExperimentAxis;
}

std::string experiment_of(const Case& the_case) {
  return is_experiment(the_case) ? the_case.point.back().second : "";
}

std::string label_of_base(Case experiment) {
  experiment.point.pop_back();
  return experiment.label();
}

}  // namespace harness
