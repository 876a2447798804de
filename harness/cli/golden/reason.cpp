#include "harness/cli/golden/reason.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/checks/law_match.h"
#include "harness/cli/golden/judge.h"
#include "nsa/base/text.h"
#include "oracles/laws/key_laws.h"
#include "oracles/laws/stage_laws.h"
#include "oracles/model/cross_entropy.h"

namespace harness::cli::golden {
namespace {

using oracles::Tensor;

double largest_of(const Tensor& tensor) {
  double most = 0.0;
  for (const double value : tensor.data) most = std::max(most, std::abs(value));
  return most;
}

bool is_near(const Tensor& a, const Tensor& b, double limit) {
  const double allowed = limit * std::max(largest_of(a), largest_of(b));
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    if (!(std::abs(a.data[i] - b.data[i]) <= allowed)) return false;
  }
  return a.data.size() == b.data.size();
}

std::string mistake_text(const std::vector<std::string>& laws) {
  return "every value is what this known mistake gives: " + nsa::join(laws, "; or: ");
}

// The file's blocks, so that a law of a later stage is not blamed for an earlier choice.
oracles::AttentionOptions replayed(const Case& c) {
  oracles::AttentionOptions options;
  if (c.blocks && c.unusable.empty()) options.replay = c.blocks;
  return options;
}

std::optional<oracles::Stage> stage_named(const std::string& name) {
  for (const oracles::Stage stage : oracles::all_stages()) {
    if (oracles::stage_name(stage) == name) return stage;
  }
  return std::nullopt;
}

std::string about(std::string_view law, oracles::Stage stage) {
  for (const oracles::StageLaw& known : oracles::stage_laws()) {
    const auto& stages = known.stages;
    if (known.name == law && std::find(stages.begin(), stages.end(), stage) != stages.end()) {
      return std::string(known.about);
    }
  }
  return std::string(law);
}

// The wrong law of choosing blocks that gives all of them.
std::string choice_reason(const Case& c) {
  const oracles::StageLawOutputs outputs(c.attention(), c.weights, c.x);
  std::vector<std::string> laws;
  for (const std::string_view law : outputs.laws(oracles::Stage::blocks)) {
    const Tensor chosen = outputs.output(law, oracles::Stage::blocks);
    const bool same =
        std::equal(chosen.data.begin(),
                   chosen.data.end(),
                   c.blocks->data.begin(),
                   c.blocks->data.end(),
                   [](double a, std::int64_t b) { return a == static_cast<double>(b); });
    if (same) laws.push_back(about(law, oracles::Stage::blocks));
  }
  return laws.empty() ? "" : mistake_text(laws);
}

class Reason {
 public:
  Reason(const Case& c, const Wanted& oracle, const std::string& stage, double limit)
      : c_(c),
        stage_(stage),
        limit_(limit),
        found_(c.found.at(stage)),
        wanted_(oracle.at(stage)),
        oracle_(oracle) {}

  std::string text() {
    if (const std::string plain = plain_reason(); !plain.empty()) return plain;
    consider_key_laws();
    consider_stage_laws();
    consider_single_branches();
    consider_losses();
    if (!laws_.empty()) return mistake_text(laws_);
    if (const std::string pattern = pattern_reason(); !pattern.empty()) return pattern;
    return margin_reason();
  }

 private:
  // What needs no law.
  [[nodiscard]] std::string plain_reason() const {
    const auto nans = std::count_if(
        found_.data.begin(), found_.data.end(), [](double value) { return std::isnan(value); });
    if (nans > 0) return std::to_string(nans) + " of its values are NaN";
    if (largest_of(found_) > 0.0) return "";
    const bool gradient = kind_of(stage_) == "gradients";
    return gradient ? "it is zero: no gradient arrives there"
                    : "it is zero: nothing was written there";
  }

  // The law gives what was found, and something else than the right thing.
  void consider(const std::string& words, const Tensor& output) {
    if (is_near(output, found_, limit_) && !is_near(output, wanted_, limit_)) {
      laws_.push_back(words);
    }
  }

  void consider_key_laws() {
    constexpr std::array kOutputs = {"o_cmp", "o_sel", "o_win"};
    const auto at = std::find(kOutputs.begin(), kOutputs.end(), stage_);
    if (at == kOutputs.end()) return;
    const auto branch = static_cast<oracles::Branch>(at - kOutputs.begin());
    const oracles::KeyLawOutputs outputs(c_.attention(), c_.weights, c_.x, replayed(c_));
    for (const oracles::KeyLaw& law : oracles::key_laws()) {
      if (std::find(law.branches.begin(), law.branches.end(), branch) == law.branches.end())
        continue;
      consider("a query sees " + std::string(law.about), outputs.output(law.name, branch));
    }
  }

  void consider_stage_laws() {
    const auto stage = c_.level == GoldenLevel::attention ? stage_named(stage_) : std::nullopt;
    if (!stage) return;
    const oracles::StageLawOutputs outputs(c_.attention(), c_.weights, c_.x, replayed(c_));
    for (const std::string_view law : outputs.laws(*stage)) {
      consider(about(law, *stage), outputs.output(law, *stage));
    }
  }

  // y that lacks the gate.
  void consider_single_branches() {
    if (stage_ != "y") return;
    constexpr std::array kNames = {"cmp", "sel", "win"};
    oracles::AttentionOptions options = replayed(c_);
    Tensor sum = oracles::zeros(wanted_.shape);
    for (std::size_t k = 0; k < kNames.size(); ++k) {
      options.gate_override = {0, 0, 0};
      options.gate_override->at(k) = 1;
      const Tensor y = oracles::attention(c_.attention(), c_.weights, c_.x, options).y;
      consider("only branch " + std::string(kNames[k]) + " reaches the output", y);
      for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += y.data[i];
    }
    consider("the branches are added without the gate", sum);
    for (double& value : sum.data) value /= 3.0;
    consider("the branches are averaged, each with one third", sum);
  }

  void consider_losses() {
    if (stage_ != "loss" || c_.level != GoldenLevel::lm) return;
    const auto length = static_cast<double>(c_.length);
    const auto positions = static_cast<double>(c_.batch) * (length - 1.0);
    const double loss = wanted_.data.at(0);
    consider("the mean is over all B*S positions", {{}, {loss * (length - 1.0) / length}});
    consider("the loss is summed, not averaged", {{}, {loss * positions}});
    oracles::IntTensor early = c_.tokens;  // as if each token had to predict itself
    for (auto row = early.data.begin(); row != early.data.end(); row += c_.length) {
      std::rotate(row, row + c_.length - 1, row + c_.length);
    }
    consider("each position predicts its own token instead of the next",
             {{}, {oracles::cross_entropy(oracle_.at("logits"), early).loss}});
  }

  // A factor, a rounding, heads or groups in another order.
  [[nodiscard]] std::string pattern_reason() const {
    if (found_.shape.size() < 2) return "";
    const double allowed = limit_ * largest_of(wanted_);
    const auto wrong = checks::wrong_vectors(found_, wanted_, allowed);
    checks::Explanation explanation(found_, wanted_, wrong, limit_);
    explanation.consider_factor();
    if (c_.dtype != nsa::DType::bf16) explanation.consider_bfloat16();
    const oracles::AttentionConfig& config = c_.attention();
    if (c_.level == GoldenLevel::attention && found_.shape.size() == 5) {
      explanation.consider_lanes(config.n_heads, "head");
    } else if (c_.level == GoldenLevel::attention && found_.shape.size() == 4) {
      explanation.consider_lanes(config.n_kv_groups, "group");
    }
    const auto law = explanation.law();
    return law ? law->about : "";
  }

  // Files of a whole model do not hold the blocks that were chosen.
  [[nodiscard]] std::string margin_reason() const {
    const bool narrow = c_.dtype != nsa::DType::f64;
    const bool close = oracle_.smallest_margin <= limit_;
    if (c_.blocks || !(close || (narrow && oracle_.tie_rows > 0))) return "";
    return "other blocks may have been chosen, which the file does not hold: the smallest margin "
           "of a selection is " +
           nsa::to_text(oracle_.smallest_margin, 3);
  }

  const Case& c_;
  const std::string& stage_;
  double limit_;
  const Tensor& found_;
  const Tensor& wanted_;
  const Wanted& oracle_;
  std::vector<std::string> laws_;
};

}  // namespace

std::string likely_reason(const Case& c,
                          const Wanted& oracle,
                          const std::string& stage,
                          double limit) {
  if (stage == "blocks") return choice_reason(c);
  return Reason(c, oracle, stage, limit).text();
}

}  // namespace harness::cli::golden
