// The loss of head_stage.h and its known mistakes, as one formula with other terms in it.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "oracles/model/head_stage.h"
#include "oracles/model/stage_naming.h"

namespace oracles {
namespace {

struct LossTerms {
  std::int64_t shift = 1;       // the target of position s is the token at s + shift
  std::int64_t skip_first = 0;  // positions of a sequence that are left out at its beginning
  std::int64_t skip_last = 0;   // and at the end of those that have a target
  std::int64_t first_sequence = 0;
  std::int64_t sequences_less = 0;  // at the end
  // The sum over positions is divided by this many; 0: by those that count.
  double divisor = 0;
  double scale = 1;                    // of the logits
  double smoothing = 0;                // share of the target that is spread over all tokens
  double base = 1;                     // losses are divided by this
  std::int64_t id_shift = 0;           // of the target's number
  Number logits = Number::f64;         // the logits are rounded to this first
  Number probabilities = Number::f64;  // the softmax is rounded to this
  bool without_target = false;         // the gradient alone: p in the place of p - [target]
  bool unmasked = false;               // positions that are not scored count too
  std::int64_t mask_shift = 0;         // positions that are scored more, in each sequence
  bool without_borders = false;        // documents' last tokens count too
  bool first_tokens_missing = false;   // documents' first tokens do not count
};

struct RowLoss {
  double loss = 0;
  double bound = 0;
};

class LossOf {
 public:
  LossOf(const LossInputs& in, const LossTerms& terms)
      : in_(in), t_(terms), batch_(in.tokens.shape.at(0)), length_(in.tokens.shape.at(1)) {
    for (std::int64_t row = 0; row < batch_ * length_; ++row) {
      positions_ += counts(row) ? 1 : 0;
    }
  }

  [[nodiscard]] bool has_positions() const { return positions_ > 0; }

  [[nodiscard]] Expected expected() {
    const std::int64_t width = in_.logits.columns;
    const auto rows = static_cast<std::int64_t>(in_.rows.size());
    Expected e{zeros({1 + rows * width}), zeros({1 + rows * width})};
    double sum = 0;
    double bound = 0;
    for (std::int64_t row = 0; row < batch_ * length_; ++row) {
      if (counts(row)) {
        const RowLoss own = loss_of(row);
        sum += own.loss;
        bound += own.bound;
      }
    }
    const double divisor = count();
    const double mean = sum / divisor;
    e.value.data[0] = mean;
    e.bound.data[0] =
        bound / divisor +
        (sum_roundoff(positions_) * in_.rounding.summed + in_.rounding.stored) * std::abs(mean);
    for (std::int64_t i = 0; i < rows; ++i) {
      write_gradient(in_.rows[static_cast<std::size_t>(i)], 1 + i * width, e);
    }
    return e;
  }

 private:
  [[nodiscard]] std::int64_t last_sequence() const { return batch_ - t_.sequences_less; }
  [[nodiscard]] double count() const {
    return t_.divisor > 0 ? t_.divisor : static_cast<double>(positions_);
  }
  // Is it the last token of a document?
  [[nodiscard]] bool is_passed_over(std::int64_t b, std::int64_t s) const {
    std::int64_t end = 0;
    for (const std::int64_t length : in_.documents[static_cast<std::size_t>(b)]) {
      if (s == end && t_.first_tokens_missing) return true;
      end += length;
      if (s < end) return s == end - 1 && !t_.without_borders;
    }
    return false;
  }
  // Do mask and documents let the position count?
  [[nodiscard]] bool is_scored(std::int64_t b, std::int64_t s) const {
    if (!in_.documents.empty() && is_passed_over(b, s)) return false;
    if (in_.scored.empty() || t_.unmasked) return true;
    return s < in_.scored[static_cast<std::size_t>(b)] + t_.mask_shift;
  }
  [[nodiscard]] bool counts(std::int64_t row) const {
    const std::int64_t s = row % length_;
    const std::int64_t b = row / length_;
    return b >= t_.first_sequence && b < last_sequence() && s >= t_.skip_first &&
           s + t_.shift >= 0 && s + t_.shift + t_.skip_last < length_ && is_scored(b, s);
  }
  [[nodiscard]] std::int64_t target(std::int64_t row) const {
    return (in_.tokens.data[row + t_.shift] + t_.id_shift) % in_.logits.columns;
  }

  // The softmax of a row and its parts; keeps it for the gradient.
  void load(std::int64_t row) {
    z_.resize(static_cast<std::size_t>(in_.logits.columns));
    p_.resize(z_.size());
    in_.logits.row(row).copy_to(z_.data());
    for (double& value : z_) {
      value = t_.scale * rounded(value, t_.logits);
    }
    largest_ = *std::max_element(z_.begin(), z_.end());
    spread_ = largest_ - *std::min_element(z_.begin(), z_.end());
    sum_ = 0;
    for (const double value : z_) {
      sum_ += std::exp(value - largest_);
    }
    for (std::size_t v = 0; v < z_.size(); ++v) {
      p_[v] = rounded(std::exp(z_[v] - largest_) / sum_, t_.probabilities);
    }
  }

  RowLoss loss_of(std::int64_t row) {
    load(row);
    const auto at = static_cast<std::size_t>(target(row));
    const double log_sum = std::log(sum_) + largest_;
    double loss = t_.probabilities == Number::f64 ? log_sum - z_[at] : -std::log(p_[at]);
    if (t_.smoothing > 0) {
      double all = 0;
      for (const double value : z_) {
        all += log_sum - value;
      }
      loss = (1 - t_.smoothing) * loss + t_.smoothing * all / static_cast<double>(z_.size());
    }
    const double sizes = std::abs(largest_) + std::abs(z_[at]) + std::abs(loss);
    const double roundings =
        sum_roundoff(in_.logits.columns) + 6 + 4 * sizes + (t_.smoothing > 0 ? 4 * spread_ : 0);
    return {loss / t_.base, roundings * in_.rounding.summed / t_.base};
  }

  void write_gradient(std::int64_t row, std::int64_t begin, Expected& e) {
    const std::int64_t width = in_.logits.columns;
    if (!counts(row)) {
      std::fill_n(e.bound.data.begin() + begin, width, in_.rounding.flushed);
      return;
    }
    load(row);
    const double share = in_.gradient_scale * t_.scale / (count() * t_.base);
    const double roundings =
        (sum_roundoff(width) + 8 + 2 * spread_) * in_.rounding.summed * std::abs(share);
    for (std::int64_t v = 0; v < width; ++v) {
      const double one = v == target(row) && !t_.without_target ? 1 - t_.smoothing : 0;
      const double wanted = one + t_.smoothing / static_cast<double>(width);
      const double p = p_[static_cast<std::size_t>(v)];
      e.value.data[begin + v] = share * (p - wanted);
      e.bound.data[begin + v] = roundings * (p + wanted) +
                                in_.rounding.stored * std::abs(e.value.data[begin + v]) +
                                in_.rounding.flushed;
    }
  }

  const LossInputs& in_;
  LossTerms t_;
  std::int64_t batch_;
  std::int64_t length_;
  std::int64_t positions_ = 0;  // that count
  std::vector<double> z_;
  std::vector<double> p_;
  double largest_ = 0;
  double spread_ = 0;
  double sum_ = 0;
};

void validate(const LossInputs& in) {
  require_shape(in.tokens, {in.tokens.shape.at(0), in.tokens.shape.at(1)}, "tokens");
  require_matrix(
      in.logits, static_cast<std::int64_t>(in.tokens.data.size()), in.logits.columns, "logits");
  for (const std::int64_t token : in.tokens.data) {
    if (token < 0 || token >= in.logits.columns) {
      throw std::invalid_argument("token " + std::to_string(token) + ", wanted 0 to " +
                                  std::to_string(in.logits.columns - 1));
    }
  }
  const auto batch = static_cast<std::size_t>(in.tokens.shape[0]);
  if (!in.scored.empty() && in.scored.size() != batch) {
    throw std::invalid_argument(std::to_string(in.scored.size()) +
                                " numbers of scored positions, wanted " + std::to_string(batch));
  }
  if (!in.documents.empty() && in.documents.size() != batch) {
    throw std::invalid_argument("documents of " + std::to_string(in.documents.size()) +
                                " sequences, wanted " + std::to_string(batch));
  }
  for (const std::int64_t scored : in.scored) {
    if (scored < 1 || scored >= in.tokens.shape[1]) {
      throw std::invalid_argument(std::to_string(scored) + " scored positions, wanted 1 to " +
                                  std::to_string(in.tokens.shape[1] - 1));
    }
  }
  for (const std::int64_t row : in.rows) {
    if (row < 0 || row >= in.logits.rows) {
      throw std::invalid_argument("row " + std::to_string(row) + ", wanted 0 to " +
                                  std::to_string(in.logits.rows - 1));
    }
  }
}

using Rule = WrongLaw<LossInputs>;
using In = const LossInputs&;

// `change` returns false where the law has no meaning.
Rule changed(std::string_view name, std::string_view about, bool (*change)(In, LossTerms&)) {
  return {{name, about}, [change](In in, std::size_t) -> std::optional<Expected> {
            LossTerms terms;
            if (!change(in, terms)) {
              return std::nullopt;
            }
            LossOf loss(in, terms);
            return loss.has_positions() ? std::optional(loss.expected()) : std::nullopt;
          }};
}

double real(std::int64_t value) {
  return static_cast<double>(value);
}

std::vector<Rule> position_rules() {
  using T = LossTerms&;
  return {changed("loss_of_same_token",
                  "the target is the token itself, not the next one",
                  [](In, T t) { return t.shift = 0, true; }),
          changed("loss_two_ahead",
                  "the target is the token two positions on",
                  [](In, T t) { return t.shift = 2, true; }),
          changed("loss_of_token_before",
                  "the target is the token before",
                  [](In, T t) { return t.shift = -1, true; }),
          changed("loss_last_position_missing",
                  "the last position of a sequence does not count",
                  [](In, T t) { return t.skip_last = 1, true; }),
          changed("loss_first_position_missing",
                  "the first position of a sequence does not count",
                  [](In, T t) { return t.skip_first = 1, true; }),
          changed("loss_last_sequence_missing",
                  "the last sequence does not count",
                  [](In in, T t) { return t.sequences_less = 1, in.tokens.shape[0] > 1; }),
          changed("loss_first_sequence_missing",
                  "the first sequence does not count",
                  [](In in, T t) { return t.first_sequence = 1, in.tokens.shape[0] > 1; }),
          changed("loss_target_next_number",
                  "the target is token + 1",
                  [](In, T t) { return t.id_shift = 1, true; }),
          changed("loss_over_all_positions",
                  "the sum is divided by B S, not by B (S - 1)",
                  [](In in, T t) {
                    return t.divisor = real(in.tokens.shape[0] * in.tokens.shape[1]), true;
                  }),
          changed("loss_summed",
                  "the sum in the place of the mean",
                  [](In, T t) { return t.divisor = 1, true; }),
          changed("loss_over_sequences",
                  "the sum is divided by B alone",
                  [](In in, T t) { return t.divisor = real(in.tokens.shape[0]), t.divisor > 1; }),
          changed("loss_over_length", "the sum is divided by S - 1 alone", [](In in, T t) {
            return t.divisor = real(in.tokens.shape[1] - 1), in.tokens.shape[0] > 1;
          })};
}

std::vector<Rule> softmax_rules() {
  using T = LossTerms&;
  return {changed("loss_in_bits",
                  "the logarithm to base 2",
                  [](In, T t) { return t.base = std::numbers::ln2, true; }),
          changed("loss_logits_in_bfloat16",
                  "the logits are rounded to bfloat16 first",
                  [](In, T t) { return t.logits = Number::bf16, true; }),
          changed("loss_logits_in_float16",
                  "the logits are rounded to float16 first",
                  [](In, T t) { return t.logits = Number::f16, true; }),
          changed("loss_softmax_in_bfloat16",
                  "the softmax is rounded to bfloat16",
                  [](In, T t) { return t.probabilities = Number::bf16, true; }),
          changed("loss_softmax_in_float16",
                  "the softmax is rounded to float16",
                  [](In, T t) { return t.probabilities = Number::f16, true; }),
          changed("loss_over_root_width",
                  "the logits are divided by sqrt(E)",
                  [](In in, T t) { return t.scale = 1 / std::sqrt(real(in.width)), in.width > 1; }),
          changed("loss_gradient_without_target",
                  "the gradient is p, without -1 at the target",
                  [](In in, T t) { return t.without_target = true, !in.rows.empty(); })};
}

bool is_masked(In in) {
  return !in.scored.empty();
}

std::vector<Rule> mask_rules() {
  using T = LossTerms&;
  return {changed("loss_mask_ignored",
                  "positions that are not scored count too",
                  [](In in, T t) { return t.unmasked = true, is_masked(in); }),
          changed("loss_mask_one_more",
                  "one position more of every sequence is scored",
                  [](In in, T t) { return t.mask_shift = 1, is_masked(in); }),
          changed("loss_mask_one_less",
                  "the last scored position of every sequence is not",
                  [](In in, T t) { return t.mask_shift = -1, is_masked(in); }),
          changed("loss_over_unscored",
                  "the sum is divided by all positions that predict, scored or not",
                  [](In in, T t) {
                    t.divisor = real(in.tokens.shape[0] * (in.tokens.shape[1] - 1));
                    return is_masked(in);
                  })};
}

bool is_packed(In in) {
  return !in.documents.empty();
}

std::vector<Rule> document_rules() {
  using T = LossTerms&;
  return {changed("loss_across_documents",
                  "the last token of a document predicts the first one of the next",
                  [](In in, T t) { return t.without_borders = true, is_packed(in); }),
          changed("loss_without_first_tokens",
                  "the first token of a document does not count",
                  [](In in, T t) { return t.first_tokens_missing = true, is_packed(in); }),
          changed("loss_over_document_ends",
                  "the sum is divided by all positions of a sequence but its last",
                  [](In in, T t) {
                    t.divisor = real(in.tokens.shape[0] * (in.tokens.shape[1] - 1));
                    return is_packed(in);
                  })};
}

constexpr double kTemperatures[] = {0.5, 2, 0.1, 10};
constexpr double kSmoothings[] = {0.1, 0.05, 0.01, 0.2};

std::vector<Rule> chosen_rules() {
  return {{{"loss_temperature", "the logits are divided by a temperature"},
           [](In in, std::size_t choice) {
             LossTerms t;
             t.scale = 1 / kTemperatures[choice];
             return LossOf(in, t).expected();
           },
           [](In) {
             return std::vector<std::string>{"0.5", "2", "0.1", "10"};
           }},
          {{"loss_smoothed", "a share of the target is spread over all tokens"},
           [](In in, std::size_t choice) {
             LossTerms t;
             t.smoothing = kSmoothings[choice];
             return LossOf(in, t).expected();
           },
           [](In) {
             return std::vector<std::string>{"0.1", "0.05", "0.01", "0.2"};
           }},
          {{"loss_zero", "the loss is 0"}, [](In in, std::size_t) {
             const Shape shape{1 + static_cast<std::int64_t>(in.rows.size()) * in.logits.columns};
             return Expected{zeros(shape), zeros(shape)};
           }}};
}

const std::vector<Rule>& loss_rules() {
  static const std::vector<Rule> kRules =
      joined({position_rules(), mask_rules(), document_rules(), softmax_rules(), chosen_rules()});
  return kRules;
}

constexpr LastLaws kLast{{"loss_factor", "the loss and its gradient times a factor"},
                         {"loss_kept_narrow", "the loss and its gradient have fewer digits"}};

}  // namespace

Expected expected_loss(In in) {
  validate(in);
  return LossOf(in, {}).expected();
}

std::span<const Law> loss_laws() {
  static const std::vector<Law> kLaws = laws_of(loss_rules(), kLast);
  return kLaws;
}

std::optional<Expected> loss_under(std::string_view law, std::size_t choice, In in) {
  validate(in);
  return given_by(loss_rules(), law, in, choice);
}

Naming name_loss(double loss, const Tensor& dlogits_RV, In in) {
  std::vector<double> found{loss};
  found.insert(found.end(), dlogits_RV.data.begin(), dlogits_RV.data.end());
  return name_by_laws(loss_rules(), kLast, in, found, expected_loss(in));
}

}  // namespace oracles
