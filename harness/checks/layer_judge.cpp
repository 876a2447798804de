#include "harness/checks/layer_judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "harness/checks/ceilings.h"
#include "harness/checks/gradient_heads.h"
#include "harness/checks/largest.h"
#include "harness/checks/layer_stages.h"
#include "harness/checks/params.h"
#include "harness/checks/result.h"
#include "harness/checks/stage_laws.h"
#include "nsa/base/text.h"

namespace harness::checks {
namespace {

enum class Rows { queries, tokens, compressed };

struct Stage {
  const char* tensor;
  const char* branch;
  const char* op;
  const char* param;
  std::int64_t LongestSums::*terms;
  Rows rows;
  bool output;  // shares the scale of the layer's outputs
  oracles::Tensor oracles::AttentionResult::*
      whole;  // the same from x alone, where the oracle tells
};

using Sums = LongestSums;
using Result = oracles::AttentionResult;

// In the order of computation.
constexpr std::array kStages = {
    Stage{"q", "", "rope", "W_Q", &Sums::gate, Rows::queries, false, &Result::q},
    Stage{"k_raw", "cmp", "rope", "W_K_cmp", &Sums::projected, Rows::tokens, false, nullptr},
    Stage{"v_raw", "cmp", "project", "W_V_cmp", &Sums::projected, Rows::tokens, false, nullptr},
    Stage{"k_sel", "sel", "rope", "W_K_sel", &Sums::projected, Rows::tokens, false, nullptr},
    Stage{"v_sel", "sel", "project", "W_V_sel", &Sums::projected, Rows::tokens, false, nullptr},
    Stage{"k_win", "win", "rope", "W_K_win", &Sums::projected, Rows::tokens, false, nullptr},
    Stage{"v_win", "win", "project", "W_V_win", &Sums::projected, Rows::tokens, false, nullptr},
    Stage{"k_cmp", "cmp", "compress", "", &Sums::o_cmp, Rows::compressed, false, &Result::k_cmp},
    Stage{"v_cmp", "cmp", "compress", "", &Sums::o_cmp, Rows::compressed, false, &Result::v_cmp},
    Stage{"o_cmp", "cmp", "attend_cmp", "", &Sums::o_cmp, Rows::queries, true, &Result::o_cmp},
    Stage{"o_sel", "sel", "attend_sel", "", &Sums::o_sel, Rows::queries, true, &Result::o_sel},
    Stage{"o_win", "win", "attend_win", "", &Sums::o_win, Rows::queries, true, &Result::o_win},
    Stage{"gate", "", "gate", "", &Sums::gate, Rows::queries, true, &Result::gate},
    Stage{"y", "", "attention", "", &Sums::y, Rows::queries, true, &Result::y},
};

// Of the finite differences and of what is wrong: where `wanted` is not finite nothing is known.
double largest_difference(const oracles::Tensor& found, const oracles::Tensor& wanted) {
  if (found.data.size() != wanted.data.size()) return std::nan("");
  double most = 0.0;
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    if (std::isfinite(wanted.data[i])) raise_to(most, std::abs(found.data[i] - wanted.data[i]));
  }
  return most;
}

double finite_scale(const oracles::Tensor& tensor) {
  double most = 0.0;
  for (const double value : tensor.data) {
    if (std::isfinite(value)) most = std::max(most, std::abs(value));
  }
  return most;
}

class LayerJudge {
 public:
  LayerJudge(const LayerRecord& record, const nsa::ModelConfig& model)
      : record_(record), stages_(record), sums_(model, record.batch, record.length) {}

  LayerJudgement judge(bool with_gradients) {
    verdict_.rows = record_.row_count();
    verdict_.rows_in_all = record_.length;
    const UnusableRows unusable = unusable_rows(record_);
    unusable_.insert(unusable.out_of_range.begin(), unusable.out_of_range.end());
    unusable_.insert(unusable.malformed.begin(), unusable.malformed.end());
    judge_stages();
    judge_whole(with_gradients);
    return std::move(verdict_);
  }

 private:
  [[nodiscard]] double limit_of(const Stage& stage) const {
    return ceiling(sums_.*stage.terms, record_.unit_roundoff, record_.arithmetic.summed);
  }

  // ---- forward, stage by stage -----------------------------------------------------------------------------------------

  void judge_stages() {
    std::map<std::string, oracles::Tensor> wanted;
    double outputs = 0.0;
    for (const Stage& stage : kStages) {
      if (!record_.has(stage.tensor)) continue;
      const auto at = wanted.emplace(stage.tensor, stages_.wanted(stage.tensor)).first;
      if (stage.output) outputs = std::max(outputs, finite_scale(at->second));
    }
    for (const Stage& stage : kStages) {
      const auto at = wanted.find(stage.tensor);
      if (at == wanted.end()) continue;
      const double scale =
          std::max(finite_scale(at->second), stage.output ? kSmallestScaleShare * outputs : 0.0);
      judge_stage(stage, at->second, scale);
    }
  }

  void judge_stage(const Stage& stage, const oracles::Tensor& wanted, double scale) {
    const oracles::Tensor& found = record_.at(stage.tensor);
    const double limit = limit_of(stage);
    if (found.data.size() != wanted.data.size()) {
      throw std::invalid_argument(std::string(stage.tensor) +
                                  " has another size than the oracle's");
    }
    std::vector<std::size_t> wrong;
    if (!wanted.data.empty()) wrong = wrong_vectors(found, wanted, limit * scale);
    if (std::string(stage.tensor) == "o_sel") drop_unusable(wrong);
    if (wrong.empty()) {
      if (unusable_.empty()) note(stage.tensor, largest_difference(found, wanted), scale, limit);
      return;
    }
    Deviation seen;
    seen.code = "NUMERIC.FORWARD";
    seen.branch = stage.branch;
    seen.op = stage.op;
    seen.param = stage.param;
    seen.tensors = {stage.tensor};
    note(stage.tensor, largest_difference(found, wanted), scale, limit);
    seen.error = verdict_.errors.at(stage.tensor).value;
    seen.limit = limit;
    put_place(stage, wanted, wrong, seen);
    const StageLaws laws(record_, stages_);
    if (const auto law = laws.explain(stage.tensor, wanted, wrong, limit)) seen.explain(*law);
    if (seen.code == "GATE.OVERRIDE") seen.branch.clear();
    verdict_.deviations.push_back(std::move(seen));
  }

  void note(const std::string& name, double difference, double scale, double limit) {
    verdict_.errors[name] = {difference == 0.0 ? 0.0 : difference / scale, limit};
  }

  // What a query attends to that chose no list of blocks is not defined.
  void drop_unusable(std::vector<std::size_t>& wrong) const {
    if (unusable_.empty()) return;
    std::erase_if(wrong, [&](std::size_t vector) { return unusable_.count(query_of(vector)) > 0; });
  }

  // Of a vector of a [B,G,h,R,.] tensor.
  [[nodiscard]] BadRow query_of(std::size_t vector) const {
    const auto r = static_cast<std::size_t>(record_.row_count());
    const auto h = static_cast<std::size_t>(record_.config.heads_per_group());
    const auto g = static_cast<std::size_t>(record_.config.n_kv_groups);
    const std::size_t list = vector / r / h;
    return {static_cast<std::int64_t>(list / g),
            static_cast<std::int64_t>(list % g),
            record_.rows[vector % r]};
  }

  // Which rows, heads and groups.
  void put_place(const Stage& stage,
                 const oracles::Tensor& wanted,
                 const std::vector<std::size_t>& wrong,
                 Deviation& seen) const {
    const std::size_t vectors = wanted.data.size() / static_cast<std::size_t>(wanted.shape.back());
    const auto count = static_cast<std::size_t>(wanted.shape[wanted.shape.size() - 2]);
    const auto lanes = static_cast<std::int64_t>(vectors / count) / record_.batch;  // of a sequence
    const std::int64_t heads = record_.config.n_heads;
    const bool by_head = lanes == heads && stage.rows == Rows::queries;
    const bool by_group = !by_head && lanes == record_.config.n_kv_groups && lanes > 1;
    const std::int64_t heads_of_lane = by_head ? record_.config.heads_per_group() : 1;
    std::set<std::pair<std::int64_t, std::size_t>> rows;
    std::set<int> positions;
    std::set<int> wrong_heads;
    std::set<int> groups;
    for (const std::size_t vector : wrong) {
      const auto lane = static_cast<std::int64_t>(vector / count);
      rows.insert({lane / heads_of_lane, vector % count});
      const auto row = vector % count;
      positions.insert(static_cast<int>(
          stage.rows == Rows::queries ? record_.rows[row] : static_cast<std::int64_t>(row)));
      if (by_head) wrong_heads.insert(static_cast<int>(lane % heads));
      if (by_head || by_group) groups.insert(static_cast<int>(lane % lanes / heads_of_lane));
    }
    std::vector<int> sorted = to_ints(positions);
    if (sorted.size() > kMostRows) sorted.resize(kMostRows);
    (stage.rows == Rows::compressed ? seen.compressed : seen.rows) = std::move(sorted);
    if (static_cast<std::int64_t>(wrong_heads.size()) < heads) seen.heads = to_ints(wrong_heads);
    seen.groups = to_ints(groups);
    seen.row_count = static_cast<std::int64_t>(rows.size());
    seen.rows_in_all = static_cast<std::int64_t>(vectors) / heads_of_lane;
  }

  // ---- the whole layer from its input ----------------------------------------------------------------------------------

  void judge_whole(bool with_gradients) {
    if (!verdict_.deviations.empty() || !unusable_.empty()) {
      // Nothing that follows from a wrong stage says anything of its own.
      if (with_gradients && !unusable_.empty()) {
        verdict_.missing.emplace_back("gradients of blocks that are no list of blocks");
      }
      return;
    }
    oracles::AttentionOptions options;
    if (record_.is_sample()) options.rows = record_.rows;
    options.replay = usable_blocks(record_);
    options.gate_override = record_.gate_override;
    if (with_gradients && !record_.dy) {
      verdict_.missing.emplace_back("the gradient of the layer's output");
    }
    if (with_gradients && record_.dy_elsewhere) {
      verdict_.missing.emplace_back(
          "gradients: the output's is not zero in the rows that were not judged");
    }
    if (!with_gradients || !record_.dy || record_.dy_elsewhere) {
      compare_whole(oracles::attention(record_.config, record_.weights, record_.x, options));
      return;
    }
    const oracles::AttentionPass pass = oracles::attention_with_gradients(
        record_.config, record_.weights, record_.x, *record_.dy, options);
    compare_whole(pass.result);
    if (verdict_.deviations.empty()) judge_backward(pass.gradients, options);
  }

  // Stages that are right one by one may still drift apart.
  void compare_whole(const oracles::AttentionResult& wanted) {
    double outputs = 0.0;
    for (const Stage& stage : kStages) {
      if (stage.output) outputs = std::max(outputs, largest((wanted.*stage.whole).data));
    }
    Deviation seen;
    for (const Stage& stage : kStages) {
      if (stage.whole == nullptr || !record_.has(stage.tensor)) continue;
      const oracles::Tensor& right = wanted.*stage.whole;
      const double scale =
          std::max(largest(right.data), stage.output ? kSmallestScaleShare * outputs : 0.0);
      const double difference = largest_difference(record_.at(stage.tensor), right);
      const double relative = difference == 0.0 ? 0.0 : difference / scale;
      const double limit = limit_of(stage);
      if (std::string(stage.tensor) == "y") verdict_.errors["y_from_x"] = {relative, limit};
      if (relative <= limit) continue;
      if (seen.tensors.empty()) {
        seen.code = "NUMERIC.FORWARD";
        seen.branch = stage.branch;
        seen.op = stage.op;
        seen.error = relative;
        seen.limit = limit;
      }
      seen.tensors.emplace_back(stage.tensor);
    }
    if (!seen.tensors.empty()) verdict_.deviations.push_back(std::move(seen));
  }

  // ---- backward ------------------------------------------------------------------------------------------------------

  void judge_backward(const oracles::AttentionGradients& wanted,
                      const oracles::AttentionOptions& options) {
    double scale_of_all = largest(wanted.x.data);
    for (const auto& [name, gradient] : wanted.weights) {
      scale_of_all = std::max(scale_of_all, largest(gradient.data));
    }
    std::vector<std::string> wrong;
    std::map<std::string, WrongHeads> heads;
    double scale_of_dx = 0.0;
    const double limit = ceiling(sums_.gradient, record_.unit_roundoff, record_.arithmetic.summed);
    const auto judge_one = [&](const std::string& name, const oracles::Tensor& gradient) {
      const double scale =
          std::max(largest(gradient.data), smallest_scale_share(name) * scale_of_all);
      if (name == "dx") scale_of_dx = scale;
      if (compare_gradient(name, gradient, scale, limit)) return;
      wrong.push_back(name);
      const auto told = heads_of_gradient(record_, options, name, gradient, limit * scale);
      if (told) heads[name] = *told;
    };
    for (const auto& [name, gradient] : wanted.weights) judge_one("g.w." + name, gradient);
    judge_one("dx", wanted.x);
    if (wrong.empty()) return;
    Deviation seen = explain_backward(wrong);
    put_heads(heads, seen);
    if (wrong.back() == "dx") put_tokens(wanted.x, limit * scale_of_dx, seen);
    verdict_.deviations.push_back(std::move(seen));
  }

  // The tokens whose own gradient is wrong, where not all are: what was left out of a weight's gradient was left out there.
  void put_tokens(const oracles::Tensor& wanted, double limit, Deviation& seen) const {
    std::set<int> tokens;
    for (const std::size_t vector : wrong_vectors(record_.at("dx"), wanted, limit)) {
      tokens.insert(static_cast<int>(vector % static_cast<std::size_t>(record_.length)));
    }
    if (static_cast<std::int64_t>(tokens.size()) == record_.length) return;
    seen.rows = to_ints(tokens);
    if (seen.rows.size() > kMostRows) seen.rows.resize(kMostRows);
  }

  // Heads and groups of all wrong gradients together. Counts are a law where they explain every one of them and agree.
  void put_heads(const std::map<std::string, WrongHeads>& told, Deviation& seen) const {
    std::set<int> heads;
    std::set<int> groups;
    std::map<int, double> counts;
    bool agree = !told.empty();
    for (const auto& [name, wrong] : told) {
      heads.insert(wrong.heads.begin(), wrong.heads.end());
      groups.insert(wrong.groups.begin(), wrong.groups.end());
      agree = agree && !wrong.counts.empty() && (counts.empty() || counts == wrong.counts);
      counts = wrong.counts;
    }
    if (static_cast<std::int64_t>(heads.size()) < record_.config.n_heads) {
      seen.heads = to_ints(heads);
    }
    seen.groups = to_ints(groups);
    if (!agree) return;
    std::vector<std::string> words;
    words.reserve(counts.size());
    for (const auto& [head, count] : counts) {
      words.push_back("that of head " + std::to_string(head) + " counts " + nsa::to_text(count, 4) +
                      " times");
    }
    seen.law = "shares_of_heads";
    seen.about = "every head's share of the sum once, but " + nsa::join(words);
  }

  // A weight's gradient that was not recorded is none at all: zeros, which is right where it has no influence.
  bool compare_gradient(const std::string& name,
                        const oracles::Tensor& wanted,
                        double scale,
                        double limit) {
    double difference = 0.0;
    if (record_.has(name)) {
      difference = largest_difference(record_.at(name), wanted);
    } else if (name == "dx") {
      verdict_.missing.push_back("tensor " + name);
      return true;
    } else {
      difference = largest(wanted.data);
    }
    note(name, difference, scale, limit);
    return verdict_.errors.at(name).value <= limit;
  }

  // A branch is named when only its own projections are wrong, beside what every branch feeds (queries and input).
  [[nodiscard]] Deviation explain_backward(const std::vector<std::string>& wrong) const {
    Deviation seen;
    seen.code = "NUMERIC.GRADIENT";
    seen.tensors = wrong;
    std::set<std::string> branches;
    std::vector<std::string> params;
    for (const std::string& name : wrong) {
      raise_to(seen.error, verdict_.errors.at(name).value);
      seen.limit = verdict_.errors.at(name).limit;
      if (name == "dx" || name == "g.w.W_Q.weight") continue;
      params.push_back(name.substr(4));
      branches.insert(branch_of(params.back()));
    }
    if (branches.size() == 1) seen.branch = *branches.begin();
    if (!seen.branch.empty()) seen.op = "attend_" + seen.branch;
    if (params.size() == 1) seen.param = short_name(params.front());
    return seen;
  }

  const LayerRecord& record_;
  LayerStages stages_;
  LongestSums sums_;
  std::set<BadRow> unusable_;
  LayerJudgement verdict_;
};

}  // namespace

LayerJudgement judge_layer(const LayerRecord& record,
                           const nsa::ModelConfig& model,
                           bool with_gradients) {
  return LayerJudge(record, model).judge(with_gradients);
}

}  // namespace harness::checks
