// The loss of every micro-batch and its gradient, from the recorded logits and tokens; and what the backward starts from.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/checks/series.h"
#include "harness/checks/step/step_stages.h"
#include "oracles/model/head_stage.h"
#include "oracles/training/document_lengths.h"
#include "oracles/training/shares.h"

namespace harness::checks {
namespace {

constexpr std::int64_t kGradientRows =
    1024;  // of a micro-batch; a wrong law of a loss is wrong in all

// Ascending; the ends of sequences are among them, where labels are most easily wrong.
std::vector<std::int64_t> gradient_rows(std::int64_t batch, std::int64_t length) {
  std::vector<std::int64_t> rows;
  const std::int64_t all = batch * length;
  for (std::int64_t i = 0; i < std::min(all, kGradientRows); ++i) {
    rows.push_back(i * all / std::min(all, kGradientRows));
  }
  for (std::int64_t b = 0; b < std::min<std::int64_t>(batch, 8); ++b) {
    rows.push_back((b + 1) * length - 1);
    rows.push_back((b + 1) * length - 2);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

// The scale before a step, as the rank samples it after the one before.
double claimed_scale(const StepJudge& judge, const StepFile& file) {
  if (!judge.run.scales_loss) return 1;
  if (file.step == 1) return 65536;
  const Series scales = series_of(judge.run.evidence, "loss_scale");
  const Sample* row = scales.find({file.rank, file.step - 1});
  return row == nullptr ? NAN : static_cast<double>(row->value);
}

bool is_near(double found, double wanted) {
  return std::abs(found - wanted) <= 0x1p-20 * std::abs(wanted);
}

struct Micro {
  const StepFile& file;
  std::int64_t micro;
  double loss;
  double root;

  [[nodiscard]] oracles::BatchPlace place() const { return {file.step, micro, file.rank}; }
  [[nodiscard]] std::string text() const {
    return process_name(file.rank) + ", step " + std::to_string(file.step) + ", micro-batch " +
           std::to_string(micro);
  }
};

// Means over different numbers of tokens, averaged as if they were over the same number?
bool is_mean_of_means(const oracles::Naming& naming) {
  return std::any_of(naming.fitting.begin(), naming.fitting.end(), [](const auto& fit) {
    return fit.law.name.starts_with("mean_of_");
  });
}

// A law of a step that would make a micro-batch wrong which is right is not the law of the step.
void drop_refuted(oracles::Naming& naming,
                  const oracles::DataConfig& data,
                  const std::vector<oracles::BatchPlace>& right) {
  std::erase_if(naming.fitting, [&](const oracles::LawFit& fit) {
    return std::any_of(right.begin(), right.end(), [&](const oracles::BatchPlace& place) {
      const auto share = oracles::share_under(fit.law.name, data, place);
      return share && !is_near(*share, oracles::share_of(data, place));
    });
  });
}

// loss * scale * the micro-batch's share of its step.
bool is_right_root(const StepJudge& judge, const Micro& at) {
  const double share = oracles::share_of(judge.run.data, at.place());
  return is_near(at.root, at.loss * claimed_scale(judge, at.file) * share);
}

// `right`: micro-batches of the same step whose root is.
void judge_root(StepJudge& judge, const Micro& at, const std::vector<oracles::BatchPlace>& right) {
  const double scale = claimed_scale(judge, at.file);
  const double share = oracles::share_of(judge.run.data, at.place());
  if (!std::isfinite(at.root) || !std::isfinite(at.loss)) return;  // judge_loss() said so
  if (is_right_root(judge, at)) return;
  oracles::Naming naming =
      oracles::name_share(at.root / (at.loss * scale), judge.run.data, at.place());
  drop_refuted(naming, judge.run.data, right);
  // Another scale is told by the scaler's own stage.
  if (judge.run.scales_loss && naming.fitting.empty() && attested_scale(judge, at.file)) return;
  const bool alike = is_mean_of_means(naming);
  Departure departure = step_departure(alike ? "GRAD.SCALE" : "LOSS.WRONG",
                      "accumulate",
                      at.file.rank,
                      at.file.step,
                      "forward",
                      {},
                      naming);
  departure.site.detail["micro"] = at.micro;
  departure.site.detail["factor"] = at.root / (at.loss * scale * share);
  if (alike) {
    const oracles::TokenCounts tokens = oracles::token_counts(judge.run.data, at.place());
    departure.site.detail["own_tokens"] = tokens.own;
    departure.site.detail["tokens"] = tokens.of_step;
  }
  judge.told.add(std::move(departure));
}

// False where it could not be judged.
bool judge_loss(StepJudge& judge, const Micro& at) {
  const std::string number = std::to_string(at.micro);
  const oracles::Matrix logits = at.file.matrix("logits." + number);
  const oracles::Matrix dlogits = at.file.matrix("dlogits." + number);
  auto tokens = at.file.tokens(at.micro);
  if (logits.rows == 0 || dlogits.rows != logits.rows || !tokens || tokens->shape.size() != 2) {
    return false;
  }
  oracles::LossInputs inputs;
  inputs.logits = logits;
  inputs.rows = gradient_rows(tokens->shape[0], tokens->shape[1]);
  inputs.tokens = std::move(*tokens);
  if (judge.run.data.ragged) {
    inputs.scored = oracles::scored_positions(judge.run.data, at.place());
  }
  inputs.documents = oracles::document_lengths(judge.run.data, at.place());
  // From what the backward really started with, so that a wrong scale is not told here too.
  inputs.gradient_scale = at.root / at.loss;
  inputs.width = judge.run.model.attention.dim;
  inputs.rounding = oracles::Rounding::of(logits.numbers.number());
  const oracles::Tensor rows = oracles::rows_of(dlogits, inputs.rows);
  const bool finite =
      std::isfinite(inputs.gradient_scale) &&
      std::all_of(rows.data.begin(), rows.data.end(), [](double x) { return std::isfinite(x); });
  if (!finite) {
    judge.not_finite("the loss of micro-batch " + number, at.file);
    return true;
  }
  const oracles::Naming naming = oracles::name_loss(at.loss, rows, inputs);
  if (naming.right.fits()) return true;
  Departure departure = step_departure("LOSS.WRONG", "loss", at.file.rank, at.file.step, "forward", {}, naming);
  departure.site.detail["micro"] = at.micro;
  departure.site.detail["found"] = Real(at.loss);
  departure.site.detail["wanted"] = Real(oracles::expected_loss(inputs).value.data.front());
  judge.told.add(std::move(departure));
  return true;
}

}  // namespace

std::optional<double> attested_scale(const StepJudge& judge, const StepFile& file) {
  const auto loss = file.of_micro("loss", 0);
  const auto root = file.of_micro("root", 0);
  if (!loss || !root) return std::nullopt;
  const oracles::BatchPlace place{file.step, 0, file.rank};
  const double share = oracles::share_of(judge.run.data, place);
  const double scale = *root / *loss / share;
  if (!std::isfinite(scale) || !(scale > 0)) return std::nullopt;
  // A wrong share, or another scale? The rank's own statement decides between the two.
  const double claimed = claimed_scale(judge, file);
  const oracles::Naming wrong = oracles::name_share(scale * share / claimed, judge.run.data, place);
  if (is_near(scale, claimed) || !wrong.fitting.empty()) return claimed;
  const double power = std::exp2(std::round(std::log2(scale)));
  return is_near(scale, power) ? std::optional(power) : std::nullopt;
}

void judge_losses(StepJudge& judge) {
  std::int64_t judged = 0;
  for (const auto& [key, file] : judge.files) {
    std::vector<oracles::BatchPlace> right;
    for (std::int64_t micro = 0; micro < judge.run.data.accumulate; ++micro) {
      const Micro at{file,
                     micro,
                     file.of_micro("loss", micro).value_or(NAN),
                     file.of_micro("root", micro).value_or(NAN)};
      if (is_right_root(judge, at)) right.push_back(at.place());
    }
    for (std::int64_t micro = 0; micro < judge.run.data.accumulate; ++micro) {
      const auto loss = file.of_micro("loss", micro);
      const auto root = file.of_micro("root", micro);
      const Micro at{file, micro, loss.value_or(NAN), root.value_or(NAN)};
      try {
        if (!loss || !root || !judge_loss(judge, at)) {
          judge.result.missing("logits, loss and their gradient of " + at.text());
          continue;
        }
        judge_root(judge, at, right);
        ++judged;
      } catch (const std::invalid_argument& error) {
        judge.result.missing("the loss of " + at.text() + ": " + error.what());
      }
    }
  }
  if (judged > 0) judge.judged.push_back(std::to_string(judged) + " losses with their gradient");
}

}  // namespace harness::checks
