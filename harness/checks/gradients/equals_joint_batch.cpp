// Are the accumulated and reduced gradients those of one pass over all sequences of the step? Asked in float64, where every
// order of the sums agrees to twelve digits. The joint pass has one micro-batch, no ranks and no reduction, so a mean over the
// wrong count, a micro-batch that is lost, or a result that depends on the size of the batch shows here.
#include <algorithm>

#include "harness/checks/artefacts.h"
#include "harness/checks/ceilings.h"
#include "harness/checks/gradients/sum_law.h"
#include "harness/checks/gradients/twin_difference.h"
#include "harness/checks/largest.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// Sums of float64 numbers in another order: n terms lose n * 1.1e-16 of the sum of their sizes at most, and no sum of a
// parameter's gradient has more than some thousand terms that matter.
constexpr double kOtherOrder = 1e-12;

double largest_entry(const nsa::SafetensorsFile& joint, const std::vector<std::string>& params) {
  double largest = 0.0;
  for (const std::string& param : params) {
    if (!joint.contains(param)) continue;
    raise_to(largest, relative_error(joint.at(param), joint.at(param)).scale);
  }
  return largest;
}

// Of a step: the parameters that differ, and the largest error of all.
struct Differences {
  std::vector<std::string> params;
  double worst = 0.0;
};

Differences compare(const nsa::SafetensorsFile& reduced,
                    const nsa::SafetensorsFile& joint,
                    const std::vector<std::string>& params,
                    std::int64_t step,
                    ResultBuilder& result) {
  Differences seen;
  const double least = kSmallestScaleShare * largest_entry(joint, params);
  for (const std::string& param : params) {
    if (!reduced.contains(param) || !joint.contains(param)) {
      result.missing("tensor " + param + " in the gradients of step " + std::to_string(step));
      continue;
    }
    const Relative found = relative_error(reduced.at(param), joint.at(param));
    const double error = found.worst == 0.0 ? 0.0 : found.worst / std::max(found.scale, least);
    raise_to(seen.worst, error);
    if (!(error <= kOtherOrder)) seen.params.push_back(param);
  }
  return seen;
}

Finding difference(const nsa::SafetensorsFile& reduced,
                   const nsa::SafetensorsFile& joint,
                   const Differences& seen,
                   const std::vector<std::string>& params,
                   std::int64_t step) {
  if (const auto factor = constant_factor(reduced, joint, params)) {
    Finding finding = make_finding("GRAD.SCALE", "joint");
    finding.site.step = step;
    finding.site.detail["factor"] = *factor;
    return finding;
  }
  const std::vector<std::string> first = first_in_backward(seen.params);
  Finding finding = make_finding("NUMERIC.GRADIENT", "joint");
  finding.site = site_of_params(first);
  finding.site.step = step;
  finding.facts.put_some("params", first);
  finding.facts["differing"] = seen.params.size();
  finding.facts["total"] = params.size();
  finding.facts["error"] = Real(seen.worst);
  return finding;
}

CheckResult judge_joint(const Evidence& evidence) {
  const Scenario& scenario = evidence.the_case.scenario;
  const std::vector<std::string> params = parameter_names(scenario.model);
  ResultBuilder result;
  if (!evidence.twin_ran()) result.missing("the twin, which did not run or not to its end");
  double worst = 0.0;
  for (std::int64_t step = 1; step <= scenario.training.steps && evidence.twin_ran(); ++step) {
    const auto reduced = open_artefact(evidence, {0, "reduced_gradients", step, 0}, result);
    const auto joint = open_artefact(evidence, {kTwin, "joint_gradients", step, 0}, result);
    if (!reduced || !joint) continue;
    const Differences seen = compare(*reduced, *joint, params, step, result);
    raise_to(worst, seen.worst);
    if (seen.params.empty()) continue;
    result.found(difference(*reduced, *joint, seen, params, step));
    break;  // later steps start from other parameters
  }
  result.measured("worst_error_to_joint_batch", worst, kOtherOrder);
  return result.finish("the reduced gradients of " + counted(scenario.training.steps, "step") +
                       " are those of one pass over all sequences (worst relative error " +
                       nsa::to_text(worst, 2) + ")");
}

}  // namespace

Check equals_joint_batch() {
  return {"equals_joint_batch",
          "accumulated and reduced gradients equal those of one pass over all sequences",
          {"GRAD.SCALE", "NUMERIC.GRADIENT"},
          &judge_joint};
}

}  // namespace harness::checks
