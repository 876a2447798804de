#include "harness/store/experiments.h"

#include "harness/scenario/experiment.h"
#include "nsa/base/error.h"

namespace harness {

// Reading a case costs a millisecond: only one that can be an experiment is read. Quotes inside a text of the case are
// escaped, so that no text looks like the axis.
bool is_experiment(const CaseRecord& record) {
  const std::string axis = std::string("[\"") + kExperimentAxis + "\",";
  if (record.case_json.find(axis) == std::string::npos) return false;
  try {
    return is_experiment(case_from_json(record.case_json, "case " + record.label));
  } catch (const nsa::Error&) {
    return false;  // it counts as the case it is
  }
}

}  // namespace harness
