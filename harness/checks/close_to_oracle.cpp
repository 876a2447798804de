// Is one layer's attention, forward and gradients, what the float64 oracle says? Per rank the layer is the first one whose
// output differs from the twin's, else the last one whose local gradients differ, else one that the seed draws.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "harness/checks/largest.h"
#include "harness/checks/layer_judge.h"
#include "harness/checks/list.h"
#include "harness/checks/params.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

struct Pick {
  std::int64_t step = 1;
  int layer = 0;
};

// One and the same wrongness in several layers or ranks.
using Kind =
    std::tuple<std::int64_t, std::string, std::string, std::string, std::string, std::string>;

struct Merged {
  std::set<int> layers;
  std::set<int> ranks;
  Deviation first;
  std::set<int> rows;
  std::set<int> groups;
  std::set<int> heads;
  bool all_heads = false;
  std::int64_t row_count = 0;
  std::int64_t rows_in_all = 0;
};

bool is_gradient(const std::string& tensor) {
  return tensor == "dx" || tensor.rfind("g.w.", 0) == 0;
}

// Fixed for a seed: a layer of a healthy case is as good as any other, but the same one each time.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;  // splitmix64
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

class OracleComparison {
 public:
  explicit OracleComparison(const Evidence& evidence)
      : evidence_(evidence), model_(evidence.the_case.scenario.model) {}

  CheckResult judge() {
    for (const int rank : all_ranks(evidence_)) judge_rank(rank);
    for (const auto& [kind, merged] : merged_) result_.found(finding(kind, merged));
    for (const auto& [tensor, error] : errors_) {
      result_.measured("relative_error_" + tensor, error.value, error.limit);
    }
    if (ties_ > 0) {
      result_.measured("selection_rows_tied", static_cast<double>(ties_));
      result_.measured("selection_tie_gap", tie_gap_, tie_bound_);
    }
    return result_.finish(summary());
  }

 private:
  [[nodiscard]] int layers() const { return static_cast<int>(model_.n_layers); }

  // ---- which layer ---------------------------------------------------------------------------------------------------

  [[nodiscard]] Pick pick(int rank) const {
    for (std::int64_t step = 1; step <= evidence_.the_case.scenario.training.steps; ++step) {
      for (int layer = 0; layer < layers(); ++layer) {
        if (differs(rank, step, layer, [](const std::string& name) { return name == "y"; }))
          return {step, layer};
      }
      for (int layer = layers() - 1; layer >= 0; --layer) {
        if (differs(rank, step, layer, is_gradient)) return {step, layer};
      }
    }
    const std::uint64_t drawn = mixed(static_cast<std::uint64_t>(evidence_.the_case.scenario.seed));
    const auto steps = static_cast<std::uint64_t>(evidence_.the_case.scenario.training.steps);
    return {static_cast<std::int64_t>(1 + drawn / 1024 % steps),
            static_cast<int>(drawn % static_cast<std::uint64_t>(layers()))};
  }

  // Bytes against the twin's. Nothing to compare with is no difference; what is missing is said where it is judged.
  template <typename Which>
  [[nodiscard]] bool differs(int rank, std::int64_t step, int layer, Which which) const {
    ResultBuilder unsaid;
    const auto own = open_artefact(evidence_, {rank, "attention_layer", step, rank, layer}, unsaid);
    const auto twin =
        open_artefact(evidence_, {kTwin, "attention_layer", step, rank, layer}, unsaid);
    if (!own || !twin) return false;
    for (const auto& [name, view] : twin->tensors()) {
      if (!which(name)) continue;
      if (!own->contains(name) || !same_bytes(own->at(name), view)) return true;
    }
    return false;
  }

  // ---- one rank ------------------------------------------------------------------------------------------------------

  void judge_rank(int rank) {
    const Pick picked = pick(rank);
    const bool forward_wrong = judge_one(rank, picked, true);
    if (!forward_wrong) return;
    // The same law may be wrong in later layers too; each is judged by its own input.
    for (int layer = picked.layer + 1; layer < layers(); ++layer)
      judge_one(rank, {picked.step, layer}, false);
  }

  bool judge_one(int rank, const Pick& at, bool with_gradients) {
    const auto file =
        open_artefact(evidence_, {rank, "attention_layer", at.step, rank, at.layer}, result_);
    if (!file) return false;
    const std::string what = "layer " + std::to_string(at.layer) + " of " + process_name(rank) +
                             ", step " + std::to_string(at.step);
    try {
      const LayerRecord record = read_layer(*file, model_);
      if (malformed(record, rank, at)) return true;
      const LayerJudgement judged = judge_layer(record, model_, with_gradients);
      for (const std::string& lacking : judged.missing) result_.missing(lacking + " in " + what);
      return take(judged, rank, at);
    } catch (const nsa::Error& error) {
      result_.missing(what + " cannot be judged: " + error.what());
    } catch (const std::invalid_argument& error) {
      result_.missing(what + " cannot be judged: the oracle refuses it: " + error.what());
    }
    return false;
  }

  bool malformed(const LayerRecord& record, int rank, const Pick& at) {
    WrongRows wrong;
    wrong.rows = malformed_rows(record);
    if (wrong.rows.empty()) return false;
    Deviation seen;
    seen.code = "SELECTION.WRONG";
    seen.op = "select";
    seen.law = "no list of blocks";
    seen.tensors = {"blocks"};
    seen.rows = wrong.positions();
    seen.groups = wrong.groups();
    seen.row_count = static_cast<std::int64_t>(wrong.rows.size());
    seen.rows_in_all = record.batch * record.config.n_kv_groups * record.length;
    merge(seen, rank, at);
    return true;
  }

  bool take(const LayerJudgement& judged, int rank, const Pick& at) {
    judged_.insert({rank, at.step, at.layer});
    ties_ += judged.ties;
    if (judged.tie_gap >= tie_gap_) {
      tie_gap_ = judged.tie_gap;
      tie_bound_ = judged.tie_bound;
    }
    for (const auto& [tensor, error] : judged.errors) {
      const auto [kept, is_new] = errors_.try_emplace(tensor, error);
      const double before = kept->second.value / kept->second.limit;
      double worst = before;
      raise_to(worst, error.value / error.limit);
      if (!(worst <= before)) kept->second = error;
    }
    bool forward = false;
    for (const Deviation& seen : judged.deviations) {
      forward = forward || seen.is_forward();
      merge(seen, rank, at);
    }
    return forward;
  }

  void merge(const Deviation& seen, int rank, const Pick& at) {
    const Kind kind = {at.step, seen.code, seen.branch, seen.op, seen.param, seen.law};
    const auto [place, is_new] = merged_.try_emplace(kind);
    Merged& merged = place->second;
    double worst = merged.first.error;
    raise_to(worst, seen.error);
    if (is_new || !(worst <= merged.first.error)) merged.first = seen;
    merged.layers.insert(at.layer);
    merged.ranks.insert(rank);
    merged.rows.insert(seen.rows.begin(), seen.rows.end());
    merged.groups.insert(seen.groups.begin(), seen.groups.end());
    merged.heads.insert(seen.heads.begin(), seen.heads.end());
    merged.all_heads = merged.all_heads || seen.heads.empty();
    merged.row_count += seen.row_count;
    merged.rows_in_all += seen.rows_in_all;
  }

  // ---- words ---------------------------------------------------------------------------------------------------------

  [[nodiscard]] static Finding finding(const Kind& kind, const Merged& merged) {
    const Deviation& seen = merged.first;
    Finding finding;
    finding.code = seen.code;
    finding.site.layers = to_ints(merged.layers);
    finding.site.ranks = to_ints(merged.ranks);
    finding.site.branch = seen.branch;
    finding.site.op = seen.op;
    finding.site.param = seen.param;
    finding.site.step = std::get<0>(kind);
    finding.site.rows = to_ints(merged.rows);
    if (finding.site.rows.size() > kMostRows) finding.site.rows.resize(kMostRows);
    if (!merged.all_heads) finding.site.heads = to_ints(merged.heads);
    add_detail(merged, finding.site);
    finding.statement = statement(merged, finding.site);
    explain(seen, finding);
    return finding;
  }

  static void add_detail(const Merged& merged, Site& site) {
    const Deviation& seen = merged.first;
    if (merged.row_count > 0) {
      site.detail["row_count"] = merged.row_count;
      site.detail["groups"] = to_ints(merged.groups);
      site.detail["share"] =
          seen.law.empty() || seen.share <= 0.0
              ? static_cast<double>(merged.row_count) / static_cast<double>(merged.rows_in_all)
              : seen.share;
    }
    if (!seen.law.empty()) site.detail["law"] = seen.law;
  }

  [[nodiscard]] static std::string statement(const Merged& merged, const Site& site) {
    const Deviation& seen = merged.first;
    const std::string where = (site.layers.size() == 1 ? "layer " : "layers ") +
                              nsa::ranges_text(site.layers) + " on " + ranks_text(site.ranks);
    std::string text;
    if (seen.code == "SELECTION.WRONG") {
      text = "in " + where +
             " other blocks were chosen than the oracle chooses, beyond what rounding of the "
             "scores explains";
    } else {
      text = "in " + where + " " + some_of(seen.tensors) +
             (seen.tensors.size() == 1 ? " is" : " are") + " not the oracle's: relative error " +
             nsa::to_text(seen.error, 3) + ", ceiling " + nsa::to_text(seen.limit, 3);
    }
    if (merged.row_count > 0) {
      text += "; " + std::to_string(merged.row_count) + " of " +
              std::to_string(merged.rows_in_all) + " (batch, group, row) are wrong";
    }
    if (!seen.law.empty() && seen.code != "SELECTION.WRONG") {
      text += ", and every one of them is what the law " + seen.law + " gives";
    }
    return text;
  }

  static void explain(const Deviation& seen, Finding& finding) {
    const bool law = !seen.law.empty() && seen.code != "SELECTION.WRONG";
    if (law) {
      finding.ruled_out =
          "not rounding and not another mistake: of the oracle's wrong laws only this one "
          "reproduces all wrong "
          "rows; the keys, values and blocks are those that were recorded";
      finding.next_action = "compare the mask of branch " + seen.branch +
                            " with the right one for the rows listed: " + hint(seen);
    } else if (seen.code == "SELECTION.WRONG") {
      finding.ruled_out =
          "not a near tie: the gap exceeds the rigorous bound on the score error; values were "
          "judged by replaying "
          "the blocks that were chosen";
      finding.next_action =
          seen.op == "score"
              ? "the block scores themselves differ: look at the overlap map and the precision of "
                "the "
                "scores"
              : "the scores are right: look at the choice among them (forced blocks, order, ties)";
    } else if (seen.code == "NUMERIC.GRADIENT") {
      finding.ruled_out =
          "not the forward: its tensors are the oracle's; not the upstream gradient: the oracle "
          "got the recorded one";
      finding.next_action = "compare the backward of this part with its equation, head by head";
      finding.site.phase = "backward";
    } else {
      finding.ruled_out =
          "not rounding: beyond the first-principles ceiling; not the input or the blocks: the "
          "oracle used the "
          "recorded ones; no known wrong law reproduces it";
      finding.next_action = "compare this operation with its equation on the recorded tensors";
    }
  }

  [[nodiscard]] static std::string hint(const Deviation& seen) {
    if (seen.code == "MASK.ALIGNMENT")
      return "a causal mask for fewer queries than keys must be aligned to the bottom right";
    if (seen.code == "MASK.POLARITY")
      return "True must mean attend, or minus infinity must be added where it is not allowed";
    if (seen.code == "MASK.ABSENT")
      return "no key after the query, and none outside the branch, may be seen";
    return "the keys that the law lists are not those of the branch";
  }

  [[nodiscard]] std::string summary() const {
    std::set<int> layers;
    for (const auto& [rank, step, layer] : judged_) layers.insert(layer);
    std::string worst;
    double share = -1.0;
    for (const auto& [tensor, error] : errors_) {
      if (error.value / error.limit <= share) continue;
      share = error.value / error.limit;
      worst = tensor;
    }
    std::string text =
        "layer " + nsa::ranges_text(to_ints(layers)) + " on " + ranks_text(all_ranks(evidence_)) +
        ": forward, blocks and gradients are the oracle's; nearest to its ceiling is " + worst +
        " (" + nsa::to_text(share, 2) + " of it)";
    if (ties_ > 0)
      text += "; " + std::to_string(ties_) +
              " rows chose other blocks within the bound of their scores";
    return text;
  }

  const Evidence& evidence_;
  const nsa::ModelConfig& model_;
  ResultBuilder result_;
  std::map<Kind, Merged> merged_;
  std::map<std::string, ErrorOfTensor> errors_;
  std::set<std::tuple<int, std::int64_t, int>> judged_;
  std::int64_t ties_ = 0;
  double tie_gap_ = 0.0;
  double tie_bound_ = 0.0;
};

}  // namespace

Check close_to_oracle() {
  return {"close_to_oracle",
          "one layer's attention, forward, choice of blocks and gradients, is the float64 oracle's",
          {"NUMERIC.FORWARD",
           "NUMERIC.GRADIENT",
           "MASK.ALIGNMENT",
           "MASK.POLARITY",
           "MASK.ABSENT",
           "SELECTION.WRONG"},
          [](const Evidence& evidence) { return OracleComparison(evidence).judge(); }};
}

}  // namespace harness::checks
