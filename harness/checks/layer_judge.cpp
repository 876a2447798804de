#include "harness/checks/layer_judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "harness/checks/ceilings.h"
#include "harness/checks/largest.h"
#include "harness/checks/params.h"
#include "oracles/selection.h"

namespace harness::checks {
namespace {

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::nan("");
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    raise_to(most, std::abs(a[i] - b[i]));
  }
  return most;
}

struct Stage {
  const char* tensor;
  const char* branch;
  const char* op;
  oracles::Tensor oracles::AttentionResult::*wanted;
  std::int64_t LongestSums::*terms;
  bool output;  // shares the scale of the layer's outputs
};

// In the order of computation. The queries and the compressed tokens sum over the layer's width, as the gate does.
constexpr std::array kStages = {
    Stage{"q", "", "rope", &oracles::AttentionResult::q, &LongestSums::gate, false},
    Stage{"k_cmp", "cmp", "compress", &oracles::AttentionResult::k_cmp, &LongestSums::o_cmp, false},
    Stage{"v_cmp", "cmp", "compress", &oracles::AttentionResult::v_cmp, &LongestSums::o_cmp, false},
    Stage{
        "o_cmp", "cmp", "attend_cmp", &oracles::AttentionResult::o_cmp, &LongestSums::o_cmp, true},
    Stage{
        "o_sel", "sel", "attend_sel", &oracles::AttentionResult::o_sel, &LongestSums::o_sel, true},
    Stage{
        "o_win", "win", "attend_win", &oracles::AttentionResult::o_win, &LongestSums::o_win, true},
    Stage{"gate", "", "gate", &oracles::AttentionResult::gate, &LongestSums::gate, true},
    Stage{"y", "", "", &oracles::AttentionResult::y, &LongestSums::y, true},
};

std::optional<oracles::Branch> attended(const Stage& stage) {
  const std::string name = stage.tensor;
  if (name == "o_cmp") return oracles::Branch::cmp;
  if (name == "o_sel") return oracles::Branch::sel;
  if (name == "o_win") return oracles::Branch::win;
  return std::nullopt;
}

class LayerJudge {
 public:
  LayerJudge(const LayerRecord& record, const nsa::ModelConfig& model)
      : record_(record), sums_(model, record.batch, record.length) {}

  LayerJudgement judge(bool with_gradients) {
    oracles::AttentionOptions options;
    options.replay = record_.blocks;
    const bool backward = with_gradients && record_.dy.has_value();
    oracles::AttentionPass pass;
    if (backward) {
      pass = oracles::attention_with_gradients(
          record_.config, record_.weights, record_.x, *record_.dy, options);
    } else {
      pass.result = oracles::attention(record_.config, record_.weights, record_.x, options);
    }
    judge_forward(pass.result);
    judge_selection(pass.result);
    if (with_gradients && !backward)
      verdict_.missing.emplace_back("the gradient of the layer's output");
    if (backward && forward_is_right()) judge_backward(pass.gradients);
    return std::move(verdict_);
  }

 private:
  [[nodiscard]] bool forward_is_right() const {
    return std::all_of(verdict_.deviations.begin(),
                       verdict_.deviations.end(),
                       [](const Deviation& seen) { return seen.code == "SELECTION.WRONG"; });
  }

  // ---- forward -------------------------------------------------------------------------------------------------------

  void judge_forward(const oracles::AttentionResult& wanted) {
    double outputs = 0.0;
    for (const Stage& stage : kStages) {
      if (stage.output) outputs = std::max(outputs, largest((wanted.*stage.wanted).data));
    }
    std::vector<const Stage*> wrong;
    for (const Stage& stage : kStages) {
      const double scale = std::max(largest((wanted.*stage.wanted).data),
                                    stage.output ? kSmallestScaleShare * outputs : 0.0);
      if (!compare(stage.tensor,
                   (wanted.*stage.wanted).data,
                   scale,
                   ceiling(sums_.*stage.terms, record_.unit_roundoff))) {
        wrong.push_back(&stage);
      }
    }
    if (!wrong.empty()) explain_forward(wrong, wanted);
  }

  // True when within the limit. What was not recorded is named and is not wrong.
  bool compare(const std::string& name,
               const std::vector<double>& wanted,
               double scale,
               double limit) {
    if (!record_.has(name)) {
      verdict_.missing.push_back("tensor " + name);
      return true;
    }
    const double difference = largest_difference(record_.tensors.at(name), wanted);
    const double relative = difference == 0.0 ? 0.0 : difference / scale;
    verdict_.errors[name] = {relative, limit};
    return relative <= limit;
  }

  // What is wrong downstream of a wrong tensor follows from it: queries and gate reach everything, compressed tokens their
  // branch, branches the output. Branches are independent of each other.
  void explain_forward(const std::vector<const Stage*>& wrong,
                       const oracles::AttentionResult& wanted) {
    const Stage& first = *wrong.front();
    std::vector<std::string> names;
    for (const Stage* stage : wrong) names.emplace_back(stage->tensor);
    bool told = false;
    for (const Stage* stage : wrong) {
      const auto branch = attended(*stage);
      const bool follows = told && (!branch || std::string(first.tensor) == "q" ||
                                    first.branch == std::string(stage->branch));
      if (follows) continue;
      verdict_.deviations.push_back(branch ? explain_branch(*stage, *branch, wanted)
                                           : plain(*stage));
      verdict_.deviations.back().tensors = names;
      told = true;
    }
  }

  [[nodiscard]] Deviation plain(const Stage& stage) const {
    Deviation seen;
    seen.code = "NUMERIC.FORWARD";
    seen.branch = stage.branch;
    seen.op = stage.op;
    seen.error = verdict_.errors.at(stage.tensor).value;
    seen.limit = verdict_.errors.at(stage.tensor).limit;
    return seen;
  }

  [[nodiscard]] Deviation explain_branch(const Stage& stage,
                                         oracles::Branch branch,
                                         const oracles::AttentionResult& wanted) const {
    Deviation seen = plain(stage);
    const oracles::Tensor& right = wanted.*stage.wanted;
    const std::vector<double>& found = record_.tensors.at(stage.tensor);
    const WrongRows rows = wrong_rows(record_, found, right, seen.limit * largest(right.data));
    seen.rows = rows.positions();
    seen.groups = rows.groups();
    seen.row_count = static_cast<std::int64_t>(rows.rows.size());
    seen.rows_in_all = rows.all;
    if (static_cast<std::int64_t>(rows.heads.size()) < record_.config.n_heads)
      seen.heads = to_ints(rows.heads);
    name_law(matching_laws(record_, branch, found, right, rows, seen.limit), seen);
    return seen;
  }

  // One law, or several that stand for the same code: rows on which they coincide cannot tell them apart.
  static void name_law(const std::vector<LawMatch>& laws, Deviation& seen) {
    std::set<std::string> codes;
    for (const LawMatch& match : laws) codes.insert(code_of_law(match.law));
    if (codes.size() != 1) return;
    const auto best =
        std::max_element(laws.begin(), laws.end(), [](const LawMatch& a, const LawMatch& b) {
          return a.share < b.share;
        });
    seen.code = *codes.begin();
    seen.law = best->law;
    seen.share = best->share;
  }

  // ---- selection -----------------------------------------------------------------------------------------------------

  [[nodiscard]] std::span<const std::int64_t> taken_at(std::int64_t index) const {
    const auto n = static_cast<std::size_t>(record_.config.n_sel);
    return {record_.blocks.data.data() + static_cast<std::size_t>(index) * n, n};
  }

  // Rows in which the choice is not the oracle's are judged with scores made of the recorded queries and compressed keys,
  // which were judged above: so the bound holds what the score itself may lose, and no more.
  void judge_selection(const oracles::AttentionResult& wanted) {
    const auto n = static_cast<std::size_t>(record_.config.n_sel);
    std::vector<BadRow> differing;
    std::int64_t index = 0;
    for (std::int64_t b = 0; b < record_.batch; ++b) {
      for (std::int64_t g = 0; g < record_.config.n_kv_groups; ++g) {
        for (std::int64_t t = 0; t < record_.length; ++t, ++index) {
          const auto taken = taken_at(index);
          const std::int64_t* own = wanted.blocks.data.data() + static_cast<std::size_t>(index) * n;
          if (!std::equal(taken.begin(), taken.end(), own)) differing.push_back({b, g, t});
        }
      }
    }
    verdict_.rows = index;
    if (!differing.empty()) explain_selection(differing);
  }

  void explain_selection(const std::vector<BadRow>& differing) {
    std::set<std::int64_t> unique;
    for (const BadRow& at : differing) unique.insert(at.row);
    const std::vector<std::int64_t> rows(unique.begin(), unique.end());
    const oracles::BoundedScores scores =
        oracles::scores_from(record_.config, score_inputs(rows), record_.arithmetic);
    WrongRows wrong;
    bool scores_right = true;
    for (const BadRow& at : differing) {
      const auto r = std::lower_bound(rows.begin(), rows.end(), at.row) - rows.begin();
      if (judge_choice(at, static_cast<std::int64_t>(r), rows.size(), scores, scores_right))
        continue;
      wrong.rows.push_back(at);
    }
    if (!wrong.rows.empty()) add_wrong_choice(wrong, scores_right);
  }

  [[nodiscard]] oracles::ScoreInputs score_inputs(const std::vector<std::int64_t>& rows) const {
    const oracles::AttentionConfig& c = record_.config;
    const std::int64_t heads = c.heads_per_group();
    const auto count = static_cast<std::int64_t>(rows.size());
    oracles::ScoreInputs inputs;
    inputs.length = record_.length;
    inputs.rows = rows;
    inputs.k_cmp = {{record_.batch, c.n_kv_groups, c.compressed_count(record_.length), c.d_k},
                    record_.tensors.at("k_cmp")};
    inputs.q = oracles::zeros({record_.batch, c.n_kv_groups, heads, count, c.d_k});
    const std::vector<double>& q = record_.tensors.at("q");
    auto out = inputs.q.data.begin();
    for (std::int64_t lane = 0; lane < record_.batch * c.n_heads; ++lane) {
      for (const std::int64_t row : rows) {
        const auto begin = q.begin() + (lane * record_.length + row) * c.d_k;
        out = std::copy(begin, begin + c.d_k, out);
      }
    }
    return inputs;
  }

  // False when no rounding explains the choice.
  bool judge_choice(const BadRow& at,
                    std::int64_t r,
                    std::size_t row_count,
                    const oracles::BoundedScores& scores,
                    bool& scores_right) {
    const oracles::AttentionConfig& c = record_.config;
    const auto blocks = static_cast<std::size_t>(c.block_count(record_.length));
    const std::int64_t group = at.batch * c.n_kv_groups + at.group;
    const auto begin =
        static_cast<std::size_t>(group * static_cast<std::int64_t>(row_count) + r) * blocks;
    const std::span own(scores.p_grp.data.data() + begin, blocks);
    const std::span bound(scores.bound.data.data() + begin, blocks);
    const auto seen = oracles::compare_selection(
        c, at.row, own, bound, taken_at(group * record_.length + at.row));
    if (seen.agreement == oracles::Agreement::wrong) {
      const auto recorded = static_cast<std::size_t>(group * record_.length + at.row) * blocks;
      for (std::size_t j = 0; j < blocks; ++j) {
        const double difference = std::abs(record_.tensors.at("p_grp")[recorded + j] - own[j]);
        if (!(difference <= bound[j])) scores_right = false;
      }
      return false;
    }
    if (seen.agreement == oracles::Agreement::tied) {
      ++verdict_.ties;
      if (seen.gap >= verdict_.tie_gap) {
        verdict_.tie_gap = seen.gap;
        verdict_.tie_bound = seen.bound;
      }
    }
    return true;
  }

  void add_wrong_choice(const WrongRows& wrong, bool scores_right) {
    Deviation seen;
    seen.code = "SELECTION.WRONG";
    seen.op = scores_right ? "select" : "score";
    seen.tensors = {scores_right ? "blocks" : "p_grp"};
    seen.rows = wrong.positions();
    seen.groups = wrong.groups();
    seen.row_count = static_cast<std::int64_t>(wrong.rows.size());
    seen.rows_in_all = verdict_.rows;
    seen.share = static_cast<double>(seen.row_count) / static_cast<double>(seen.rows_in_all);
    verdict_.deviations.push_back(seen);
  }

  // ---- backward ------------------------------------------------------------------------------------------------------

  void judge_backward(const oracles::AttentionGradients& wanted) {
    double scale_of_all = largest(wanted.x.data);
    for (const auto& [name, gradient] : wanted.weights) {
      scale_of_all = std::max(scale_of_all, largest(gradient.data));
    }
    std::vector<std::string> wrong;
    const double limit = ceiling(sums_.gradient, record_.unit_roundoff);
    const auto judge_one = [&](const std::string& name, const oracles::Tensor& gradient) {
      const double scale = std::max(largest(gradient.data), kSmallestScaleShare * scale_of_all);
      if (!compare_gradient(name, gradient.data, scale, limit)) wrong.push_back(name);
    };
    for (const auto& [name, gradient] : wanted.weights) judge_one("g.w." + name, gradient);
    judge_one("dx", wanted.x);
    if (!wrong.empty()) verdict_.deviations.push_back(explain_backward(wrong));
  }

  // A gradient that was not recorded is none at all: zeros.
  bool compare_gradient(const std::string& name,
                        const std::vector<double>& wanted,
                        double scale,
                        double limit) {
    if (record_.has(name) || name == "dx") return compare(name, wanted, scale, limit);
    const double relative = largest(wanted) == 0.0 ? 0.0 : largest(wanted) / scale;
    verdict_.errors[name] = {relative, limit};
    return relative <= limit;
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
  LongestSums sums_;
  LayerJudgement verdict_;
};

}  // namespace

LayerJudgement judge_layer(const LayerRecord& record,
                           const nsa::ModelConfig& model,
                           bool with_gradients) {
  return LayerJudge(record, model).judge(with_gradients);
}

}  // namespace harness::checks
