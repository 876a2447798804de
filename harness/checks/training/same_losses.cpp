// Are the losses of the ranks those of the same steps in the twin? For steps that are run with nothing around them, to be timed:
// a step that leaves something out is fast, and its loss shows it one step later. The twin trains with the driver of kind
// training, whose every stage step_is_oracle judges there.
#include <cmath>

#include "harness/checks/agreement.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "harness/checks/series.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

// Relative. On a CPU both compute the same numbers in the same order, and a mean over micro-batches may be summed in another
// type. On a device the order is not fixed: the differences of some steps with low precision stay below this. What a graph
// launches are the kernels that were captured, so its numbers are those of the twin to the last bit.
constexpr double kSameOnCpu = 0x1p-20;
constexpr double kSameOnDevice = 0x1p-7;
constexpr double kSameInGraph = 0.0;

class LossComparison {
 public:
  explicit LossComparison(const Evidence& evidence)
      : evidence_(evidence), own_(series_of(evidence, "loss")) {
    const bool on_device = evidence.the_case.scenario.parallel.device == nsa::Device::cuda;
    limit_ = on_device ? kSameOnDevice : kSameOnCpu;
    if (evidence.the_case.scenario.training.cuda_graph) limit_ = kSameInGraph;
  }

  CheckResult judge() {
    if (!evidence_.twin_ran()) result_.missing("the twin, which did not run or not to its end");
    for (const int rank : all_ranks(evidence_)) {
      judge_rank(rank);
      if (evidence_.the_case.scenario.training.cuda_graph) judge_parameters(rank);
    }
    result_.measured("largest_difference_of_losses", worst_, limit_);
    return result_.finish(std::to_string(same_) + " losses are those of the twin's steps" +
                          (equal_ > 0 ? "; so are " + counted(equal_, "parameter") +
                                            " after the last of them, bit by bit"
                                      : ""));
  }

 private:
  void judge_rank(int rank) {
    Latest<std::int64_t, Sample> twin;
    for (const auto& row : evidence_.samples) {
      const bool of_rank = row.row.metric == "loss_of_rank_" + std::to_string(rank);
      if (row.process == kTwin && of_rank) twin.put(row.row.step, row);
    }
    for (std::int64_t step = 1; step <= evidence_.the_case.scenario.training.steps; ++step) {
      const Sample* own = own_.find({rank, step});
      const Sample* wanted = twin.find(step);
      if (own == nullptr || wanted == nullptr) {
        result_.missing("the loss of step " + std::to_string(step) + " of " +
                        process_name(own == nullptr ? rank : kTwin));
        return;
      }
      const Said said = agree(Held::of(own->value), Held::of(wanted->value), limit_);
      if (said == Said::not_finite) {
        result_.missing("the losses from step " + std::to_string(step) + " on of " +
                            process_name(rank) + ", which are not finite, nor are the twin's",
                        site_of_rank(rank));
        return;
      }
      const double off = std::abs(own->value - wanted->value) / std::abs(wanted->value);
      if (off > worst_) worst_ = off;
      if (said == Said::differ) {
        tell(rank, step, own->value, wanted->value);
        return;  // every later step follows from it
      }
      ++same_;
    }
  }

  // After the last step, of which no loss is left to tell.
  void judge_parameters(int rank) {
    const std::int64_t last = evidence_.the_case.scenario.training.steps;
    Latest<std::string, ParameterHash> own;
    Latest<std::string, ParameterHash> twin;
    for (const auto& row : evidence_.parameters) {
      if (row.row.step != last) continue;
      if (row.process == rank) own.put(row.row.param, row);
      if (row.process == kTwin) twin.put(row.row.param, row);
    }
    std::vector<std::string> other;
    for (const std::string& name : parameter_names(evidence_.the_case.scenario.model)) {
      const ParameterHash* found = own.find(name);
      const ParameterHash* wanted = twin.find(name);
      const Held own_hash = Held::hash(found == nullptr ? "" : found->hash);
      const Said said = agree(own_hash, Held::hash(wanted == nullptr ? "" : wanted->hash));
      if (said == Said::unread) {
        const bool own_unread = own_hash.state == Held::State::unread;
        result_.missing("the hash of " + name + " after step " + std::to_string(last) + " of " +
                        process_name(own_unread ? rank : kTwin));
        return;
      }
      if (said == Said::differ) other.push_back(name);
      ++equal_;
    }
    if (other.empty() || result_.has_findings()) return;  // they follow from another loss
    Finding finding = make_finding("LOSS.WRONG", "timed_parameters");
    finding.site.ranks = {rank};
    finding.site.step = last;
    finding.site.op = "step";
    finding.facts["count"] = other.size();
    finding.facts.put_some("params", other);
    result_.found(std::move(finding));
  }

  void tell(int rank, std::int64_t step, double found, double wanted) {
    Finding finding = make_finding("LOSS.WRONG", "timed");
    finding.site.ranks = {rank};
    finding.site.step = step;
    finding.site.op = "step";
    finding.site.detail["found"] = Real(found);
    finding.site.detail["wanted"] = Real(wanted);
    result_.found(std::move(finding));
  }

  const Evidence& evidence_;
  Series own_;
  double limit_ = kSameOnCpu;
  double worst_ = 0;
  std::int64_t same_ = 0;
  std::int64_t equal_ = 0;  // parameters
  ResultBuilder result_;
};

}  // namespace

Check same_losses() {
  return {"same_losses",
          "steps that are timed have the losses of the same steps in the twin",
          {"LOSS.WRONG"},
          [](const Evidence& evidence) { return LossComparison(evidence).judge(); },
          kWatchEvents};
}

}  // namespace harness::checks
