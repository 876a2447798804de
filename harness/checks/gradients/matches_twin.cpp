// Are the gradients those of a single process? (1) every rank's local gradient is the twin's for the same micro-batch, bit by
// bit on a CPU; (2) the reduced gradient is the mean of the ranks' local ones. A constant factor is told as such.
#include "harness/checks/gradients/twin_parts.h"
#include "harness/checks/largest.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

CheckResult judge_twin(const Evidence& evidence) {
  const Ledger ledger(evidence);
  const std::vector<std::string> params = parameter_names(evidence.the_case.scenario.model);
  const TwinCase the_case{evidence, ledger, params};
  ResultBuilder result;
  if (!evidence.twin_ran()) result.missing("the twin, which did not run or not to its end");
  std::int64_t equal = 0;
  double worst_share = 0.0;
  for (std::int64_t step = 1; step <= evidence.the_case.scenario.training.steps; ++step) {
    PartOfTwin local;
    if (evidence.twin_ran()) local = compare_local(the_case, step, result);
    const PartOfTwin sums = compare_sums(the_case, step, result);
    equal += local.equal;
    raise_to(worst_share, sums.worst_share);
    if (local.found || sums.found) break;  // later steps start from other parameters
  }
  if (equal == 0 && !result.has_findings())
    result.missing("a local gradient that the twin has too");
  const bool on_device = evidence.the_case.scenario.parallel.device == nsa::Device::cuda;
  result.measured("gradients_equal_to_twin", static_cast<double>(equal));
  result.measured("worst_share_of_sum_bound", worst_share, 1.0);
  return result.finish(std::to_string(equal) + " local gradients equal the twin's" +
                       (on_device ? " within the ceiling" : " bit by bit") +
                       "; the reduced ones are their mean (worst " + nsa::to_text(worst_share, 3) +
                       " of the bound)");
}

}  // namespace

Check matches_twin() {
  return {"matches_twin",
          "local gradients equal those of a single process, and the reduced ones are their mean",
          {"GRAD.SCALE", "NUMERIC.GRADIENT", "COMM.DTYPE"},
          &judge_twin};
}

}  // namespace harness::checks
