// Is a checkpointed layer computed again as it was computed forward, and are its gradients those without checkpointing? What a
// layer computes again from its own right input is its own evidence; a wrong gradient flows on to the layers below. Here too: a
// tensor that the backward needs and that was written to meanwhile.
#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/checks/gradients/ledger.h"
#include "harness/checks/gradients/overwritten.h"
#include "harness/checks/gradients/recompute_record.h"
#include "harness/checks/gradients/twin_difference.h"
#include "harness/checks/list.h"
#include "harness/checks/parameter_names.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

std::vector<int> merged(std::vector<int> layers, int more) {
  layers.push_back(more);
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

struct OtherGradients {  // of one step, over all ranks
  std::set<int> ranks;
  std::set<int> layers;
  std::optional<int> first;  // in the order of the backward; none where it is no layer's
  std::int64_t params = 0;
  std::vector<std::string>
      exchanged;  // of the first layer: one holds the twin's gradient of another
};

class CheckpointJudge {
 public:
  explicit CheckpointJudge(const Evidence& evidence)
      : evidence_(evidence),
        layers_(evidence.the_case.scenario.parallel.checkpoint_layers),
        params_(parameter_names(evidence.the_case.scenario.model)),
        ledger_(evidence) {}

  CheckResult judge() {
    const std::int64_t steps = evidence_.the_case.scenario.training.steps;
    for (std::int64_t step = 1; step <= steps && !result_.has_findings(); ++step) {
      const bool overwritten = find_overwritten(step);
      if (!layers_.empty()) judge_step(step, overwritten);
    }
    if (layers_.empty()) {
      if (evidence_.gradients.empty()) result_.missing("no gradient row was recorded");
      return result_.finish("no layer is checkpointed");
    }
    tell_layers();
    if (compared_ == 0 && !result_.has_findings())
      result_.missing("a gradient that the twin has too");
    result_.measured("layers_computed_again", static_cast<double>(layers_.size()));
    return result_.finish(numbers_text("layer", layers_) + (layers_.size() == 1 ? " is" : " are") +
                          " computed again bit by bit on " + ranks_text(all_ranks(evidence_)) +
                          (diverged_ ? "; gradients first differ from the twin's where nothing is "
                                       "checkpointed (see matches_twin)"
                                     : ", with the gradients of a process that does not "
                                       "checkpoint"));
  }

 private:
  void judge_step(std::int64_t step, bool overwritten) {
    const std::map<int, LayerAgain> again = recomputed(evidence_, step, result_);
    tell_dtype(step, again);
    tell_blocks(step, again);
    std::set<int> wrong;
    for (const auto& [layer, seen] : again) {
      if (seen.other_output) wrong.insert(layer);
    }
    std::optional<int> first;
    if (!wrong.empty()) first = *wrong.rbegin();
    const OtherGradients other = other_gradients(step);
    if (is_blamed(other, again, overwritten)) first = std::max(first.value_or(-1), *other.first);
    if (first) result_.found(other_gradient(step, *first, wrong, again, other));
  }

  // Above the first layer whose gradient differs all is right; what is computed again wrongly there explains it better.
  [[nodiscard]] bool is_blamed(const OtherGradients& other,
                               const std::map<int, LayerAgain>& again,
                               bool overwritten) const {
    if (!other.first || overwritten || again.count(*other.first) > 0) return false;
    return std::find(layers_.begin(), layers_.end(), *other.first) != layers_.end();
  }

  OtherGradients other_gradients(std::int64_t step) {
    OtherGradients all;
    if (diverged_) return all;  // from here on the ranks have other parameters than the twin
    if (!evidence_.twin_ran()) {
      result_.missing("the twin, which did not run or not to its end");
      return all;
    }
    std::vector<std::string> params;
    for (const int rank : all_ranks(evidence_)) {
      const std::vector<std::string> of_rank = differing(step, rank);
      if (!of_rank.empty()) all.ranks.insert(rank);
      params.insert(params.end(), of_rank.begin(), of_rank.end());
    }
    diverged_ = !params.empty();
    all.params = static_cast<std::int64_t>(std::set(params.begin(), params.end()).size());
    for (const std::string& param : params) {
      if (layer_of(param) >= 0) all.layers.insert(layer_of(param));
    }
    const std::vector<std::string> first = first_in_backward(params);
    if (!first.empty() && layer_of(first.front()) >= 0) all.first = layer_of(first.front());
    if (all.first) all.exchanged = exchanged(step, all.ranks, first);
    return all;
  }

  // Those of `params` whose gradient is, bit for bit, the twin's of another one of them, and the other way round: the backward is
  // right, and what it gave went to another parameter.
  [[nodiscard]] std::vector<std::string> exchanged(std::int64_t step,
                                                   const std::set<int>& ranks,
                                                   const std::vector<std::string>& params) const {
    std::set<std::string> found;
    const auto holds = [&](int rank, const std::string& one, const std::string& other) {
      const Gradient* own = ledger_.ranks.find({step, rank, one});
      const Gradient* twin = ledger_.twin.find({step, rank, other});
      return own != nullptr && twin != nullptr && own->hash_before == twin->hash_before;
    };
    for (const int rank : ranks) {
      for (const std::string& one : params) {
        for (const std::string& other : params) {
          const bool both = one < other && !holds(rank, one, one) && holds(rank, one, other) &&
                            holds(rank, other, one);
          if (both) found.insert({one, other});
        }
      }
    }
    return {found.begin(), found.end()};
  }

  // Parameters whose local gradient on `rank` is not the twin's, by more than rounding.
  std::vector<std::string> differing(std::int64_t step, int rank) {
    std::vector<std::string> differ;
    for (const std::string& param : params_) {
      const Gradient* own = ledger_.ranks.find({step, rank, param});
      const Gradient* twin = ledger_.twin.find({step, rank, param});
      if (own == nullptr || twin == nullptr) {
        result_.missing("gradient rows of " + process_name(own == nullptr ? rank : kTwin) +
                            ", step " + std::to_string(step) + ended_early(evidence_, rank),
                        site_of_rank(rank));
        return {};
      }
      const Said said = agree(*own, *twin);
      if (said == Said::unread) {
        result_.missing("the hash of a gradient of " + process_name(rank) + " or its twin, step " +
                            std::to_string(step) + ": " + param,
                        site_of_rank(rank));
      }
      if (said == Said::equal) ++compared_;
      if (said == Said::differ) differ.push_back(param);
    }
    if (differ.empty()) return differ;
    compared_ += static_cast<std::int64_t>(differ.size());
    const auto own = open_artefact(evidence_, {rank, "local_gradients", step, rank}, result_);
    const auto twin = open_artefact(evidence_, {kTwin, "local_gradients", step, rank}, result_);
    if (!own || !twin) return {};
    for (const auto& [param, error] :
         gradient_errors(evidence_.the_case.scenario, *own, *twin, differ)) {
      keep_worst(layer_of(param), error);
    }
    return above_ceiling(evidence_.the_case.scenario, *own, *twin, differ);
  }

  void keep_worst(int layer, const GradientError& error) {
    GradientError& worst = worst_.try_emplace(layer, error).first->second;
    if (!std::isnan(worst.value) && !(error.value <= worst.value)) worst = error;
  }

  // Layer by layer, in the step in which gradients first differ: which are wrong, and by how much.
  void tell_layers() {
    if (worst_.empty()) return;
    const double limit = worst_.begin()->second.limit;
    const auto layers = static_cast<int>(evidence_.the_case.scenario.model.n_layers);
    for (int layer = 0; layer < layers; ++layer) {
      const auto [at, is_equal] = worst_.try_emplace(layer, GradientError{0.0, limit});
      result_.measured(
          "gradient_error_layer_" + std::to_string(layer), at->second.value, at->second.limit);
    }
  }

  void tell_dtype(std::int64_t step, const std::map<int, LayerAgain>& again) {
    Finding finding = make_finding("CKPT.DTYPE", "dtype");
    std::set<int> ranks;
    std::set<std::string> dtypes;
    for (const auto& [layer, seen] : again) {
      if (!seen.other_dtype) continue;
      finding.site.layers.push_back(layer);
      ranks.insert(seen.ranks.begin(), seen.ranks.end());
      dtypes.insert(seen.dtypes.begin(), seen.dtypes.end());
    }
    if (ranks.empty()) return;
    finding.site.op = "checkpoint";
    place(finding, step, ranks);
    finding.site.detail["dtypes"] =
        nsa::join(std::vector<std::string>(dtypes.begin(), dtypes.end()), "; ");
    result_.found(finding);
  }

  void tell_blocks(std::int64_t step, const std::map<int, LayerAgain>& again) {
    Finding finding = make_finding("CKPT.SELECTION_FLIP", "blocks");
    std::set<int> ranks;
    std::set<int> queries;
    std::int64_t rows = 0;
    std::int64_t differing = 0;
    for (const auto& [layer, seen] : again) {
      if (!seen.other_blocks) continue;
      finding.site.layers.push_back(layer);
      ranks.insert(seen.ranks.begin(), seen.ranks.end());
      queries.insert(seen.queries.begin(), seen.queries.end());
      rows += seen.rows;
      differing += seen.rows_differing;
    }
    if (ranks.empty()) return;
    const double share =
        static_cast<double>(differing) / static_cast<double>(std::max<std::int64_t>(rows, 1));
    place(finding, step, ranks);
    finding.site.op = "select";
    finding.site.rows = to_ints(queries);
    finding.site.detail["share"] = share;
    finding.site.detail["row_count"] = differing;
    finding.facts["rows_in_all"] = rows;
    result_.found(finding);
  }

  static void place(Finding& finding, std::int64_t step, const std::set<int>& ranks) {
    finding.site.step = step;
    finding.site.ranks = to_ints(ranks);
    finding.site.phase = "backward";
  }

  [[nodiscard]] static Finding other_gradient(std::int64_t step,
                                              int first,
                                              const std::set<int>& wrong,
                                              const std::map<int, LayerAgain>& again,
                                              const OtherGradients& other) {
    std::set<int> ranks = other.ranks;
    for (const int layer : wrong) {
      ranks.insert(again.at(layer).ranks.begin(), again.at(layer).ranks.end());
    }
    const bool own_output = wrong.count(first) > 0;
    const std::vector<int> all = merged(to_ints(wrong), first);
    const bool swapped = !own_output && !other.exchanged.empty();
    Finding finding = make_finding("CKPT.GRADIENT",
                                   own_output ? "output"
                                   : swapped  ? "exchanged"
                                              : "gradient");
    finding.site.op = "checkpoint";
    // Without a wrong output the layer's plain backward may be what is wrong.
    if (!own_output && !swapped) finding.status = Status::hypothesis;
    if (swapped) finding.facts.put_some("params", other.exchanged);
    place(finding, step, ranks);
    finding.site.layers = {first};
    finding.site.detail["layers"] = all;
    if (!other.layers.empty()) finding.site.detail["gradients_differ_in"] = to_ints(other.layers);
    finding.facts["first"] = first;
    if (all.size() > 1) {
      std::vector<int> others = all;
      std::erase(others, first);
      finding.facts["others"] = numbers_text("layer", others);
    }
    return finding;
  }

  // True when something was found in this step.
  bool find_overwritten(std::int64_t step) {
    auto finding = overwritten_in_step(evidence_, step);
    if (!finding) return false;
    result_.found(std::move(*finding));
    return true;
  }

  const Evidence& evidence_;
  const std::vector<int>& layers_;
  std::vector<std::string> params_;
  Ledger ledger_;
  std::int64_t compared_ = 0;  // gradients, with the twin's
  ResultBuilder result_;
  bool diverged_ = false;
  std::map<int, GradientError> worst_;  // by layer, of all ranks; -1 for what is no layer's
};

}  // namespace

Check checkpoint_equal() {
  return {"checkpoint_equal",
          "what is computed again in the backward is what was computed forward",
          {"CKPT.GRADIENT", "CKPT.SELECTION_FLIP", "CKPT.DTYPE", "INPLACE.MODIFIED"},
          [](const Evidence& evidence) { return CheckpointJudge(evidence).judge(); }};
}

}  // namespace harness::checks
