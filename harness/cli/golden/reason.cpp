#include "harness/cli/golden/reason.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/cli/golden/judge.h"
#include "nsa/base/text.h"
#include "oracles/laws/backward_laws.h"
#include "oracles/model/cross_entropy.h"

namespace harness::cli::golden {
namespace {

using oracles::Tensor;

// "every value is what this known mistake gives: a; or: b"
std::string mistake_text(const oracles::Naming& naming) {
  if (naming.fitting.empty()) return "";
  const bool everywhere = naming.fitting.front().share >= 1.0;
  std::vector<std::string> laws;
  for (const oracles::LawFit& fit : naming.fitting) {
    laws.push_back(std::string(fit.law.about) + (fit.detail.empty() ? "" : ": " + fit.detail));
  }
  return (everywhere
              ? "every value is what this known mistake gives: "
              : "every wrong value, but not every right one, is what this known mistake gives: ") +
         nsa::join(laws, "; or: ");
}

class Reason {
 public:
  Reason(const Case& c, const Wanted& oracle, const std::string& stage, const AllowedOf& allowed)
      : c_(c), oracle_(oracle), stage_(stage), allowed_(allowed) {}

  [[nodiscard]] std::string of_choice(const std::vector<std::size_t>& wrong_rows) const {
    const Tensor found = {c_.blocks->shape, {c_.blocks->data.begin(), c_.blocks->data.end()}};
    const Tensor wanted = {oracle_.blocks->shape,
                           {oracle_.blocks->data.begin(), oracle_.blocks->data.end()}};
    oracles::Stages stages(c_.attention(), c_.weights, c_.x);
    return mistake_text(
        oracles::name_stage(stages, oracles::Stage::blocks, found, wanted, wrong_rows, {}));
  }

  [[nodiscard]] std::string text() const {
    if (const std::string plain = plain_reason(); !plain.empty()) return plain;
    if (const std::string law = mistake_text(known_laws()); !law.empty()) return law;
    if (const std::string loss = loss_reason(); !loss.empty()) return loss;
    return margin_reason();
  }

 private:
  [[nodiscard]] const Tensor& found() const { return c_.found.at(stage_); }
  [[nodiscard]] const Tensor& wanted() const { return oracle_.at(stage_); }

  // What needs no law.
  [[nodiscard]] std::string plain_reason() const {
    const std::vector<double>& data = found().data;
    const auto nans =
        std::count_if(data.begin(), data.end(), [](double value) { return std::isnan(value); });
    if (nans > 0) return std::to_string(nans) + " of its values are NaN";
    if (std::any_of(data.begin(), data.end(), [](double value) { return value != 0.0; })) return "";
    const bool gradient = kind_of(stage_) == "gradients";
    return gradient ? "it is zero: no gradient arrives there"
                    : "it is zero: nothing was written there";
  }

  [[nodiscard]] oracles::Naming known_laws() const {
    const oracles::Allowed allowed = allowed_(stage_);
    if (found().shape.size() < 2) return {};
    const auto wrong = oracles::wrong_vectors(found(), wanted(), allowed.of(wanted()));
    if (c_.level != GoldenLevel::attention) {
      oracles::Naming naming;
      naming.fitting = oracles::fitted_patterns(found(), wanted(), wrong, 0, allowed);
      return naming;
    }
    // The file's own results, so that a law of a later stage is not blamed for an earlier one.
    oracles::AttentionOptions options;
    if (c_.blocks && c_.unusable.empty()) options.replay = c_.blocks;
    oracles::Stages stages(c_.attention(), c_.weights, c_.x, options);
    for (const auto& [name, tensor] : c_.found) {
      if (const auto stage = oracles::stage_named(name)) stages.record(*stage, tensor);
    }
    if (kind_of(stage_) == "gradients") return gradient_laws(stages);
    const auto stage = oracles::stage_named(stage_);
    if (stage) {
      return oracles::name_stage(stages, *stage, found(), wanted(), wrong, allowed);
    }
    oracles::Naming naming;  // y of a single branch
    naming.fitting = oracles::fitted_patterns(found(), wanted(), wrong, 0, allowed);
    return naming;
  }

  [[nodiscard]] oracles::Naming gradient_laws(const oracles::Stages& stages) const {
    constexpr std::string_view kWeights = "g.w.";
    constexpr std::string_view kAny = "g.";
    std::vector<oracles::RecordedGradient> recorded;
    for (const auto& [name, tensor] : c_.found) {
      if (!name.starts_with(kAny)) continue;
      const bool of_weight = name.starts_with(kWeights);
      recorded.push_back({name.substr(of_weight ? kWeights.size() : kAny.size()),
                          tensor,
                          oracle_.at(name),
                          allowed_(name)});
    }
    return oracles::name_gradients(oracles::Backward(stages, *c_.dy), recorded).naming;
  }

  [[nodiscard]] std::string loss_reason() const {
    if (stage_ != "loss" || c_.level != GoldenLevel::lm) return "";
    const auto length = static_cast<double>(c_.length);
    const auto positions = static_cast<double>(c_.batch) * (length - 1.0);
    const double loss = wanted().data.at(0);
    oracles::IntTensor early = c_.tokens;  // as if each token had to predict itself
    for (auto row = early.data.begin(); row != early.data.end(); row += c_.length) {
      std::rotate(row, row + c_.length - 1, row + c_.length);
    }
    const double own_token = oracles::cross_entropy(oracle_.at("logits"), early).loss;
    const double limit = allowed_(stage_).relative;
    oracles::Naming naming;
    for (const auto& [about, value] :
         {std::pair{"the mean is over all B*S positions", loss * (length - 1.0) / length},
          std::pair{"the loss is summed, not averaged", loss * positions},
          std::pair{"each position predicts its own token instead of the next", own_token}}) {
      const double difference = std::abs(found().data.at(0) - value);
      if (difference <= limit * std::max(std::abs(value), std::abs(loss))) {
        naming.fitting.push_back({{about, about}, {}, 1.0, {}});
      }
    }
    return mistake_text(naming);
  }

  // Files of a whole model do not hold the blocks that were chosen.
  [[nodiscard]] std::string margin_reason() const {
    const bool narrow = c_.dtype != nsa::DType::f64;
    const bool close = oracle_.smallest_margin <= allowed_(stage_).relative;
    if (c_.blocks || !(close || (narrow && oracle_.tie_rows > 0))) return "";
    return "other blocks may have been chosen, which the file does not hold: the smallest margin "
           "of a selection is " +
           nsa::to_text(oracle_.smallest_margin, 3);
  }

  const Case& c_;
  const Wanted& oracle_;
  const std::string& stage_;
  const AllowedOf& allowed_;
};

}  // namespace

std::string likely_reason(const Case& c,
                          const Wanted& oracle,
                          const std::string& stage,
                          const AllowedOf& allowed,
                          const std::vector<std::size_t>& wrong_rows) {
  const Reason reason(c, oracle, stage, allowed);
  return stage == "blocks" ? reason.of_choice(wrong_rows) : reason.text();
}

}  // namespace harness::cli::golden
