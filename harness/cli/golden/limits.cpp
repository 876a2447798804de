#include "harness/cli/golden/limits.h"

#include <algorithm>
#include <cmath>

#include "harness/checks/ceilings.h"
#include "harness/cli/golden/judge.h"

namespace harness::cli::golden {
namespace {

using oracles::Number;
using oracles::Tensor;

double largest_of(const Tensor& tensor) {
  double most = 0.0;
  for (const double value : tensor.data) most = std::max(most, std::abs(value));
  return most;
}

Number number_of(nsa::DType dtype) {
  switch (dtype) {
    case nsa::DType::bf16: return Number::bf16;
    case nsa::DType::f16: return Number::f16;
    case nsa::DType::f32: return Number::f32;
    default: return Number::f64;
  }
}

double summed_in(Number number) {
  return oracles::unit_roundoff(number == Number::f64 ? Number::f64 : Number::f32);
}

// Terms of the longest sum on the way to a result.
std::int64_t terms_of(const std::string& name, const Case& c) {
  const checks::LongestSums sums(c.config.model, c.batch, c.length);
  if (c.level != GoldenLevel::attention) {
    const std::int64_t forward =
        std::max({sums.y, c.lm.mlp_ratio * c.attention().dim, c.lm.vocab_size});
    if (name == "logits") return forward;
    return name == "lr" ? 1 : std::max({forward, sums.gradient, c.batch * c.length});
  }
  if (const auto stage = oracles::stage_named(name)) return sums.of(*stage);
  return name.starts_with("g.") ? sums.gradient : sums.y;
}

// Of a whole model in a narrow type, in unit roundoffs. Independent roundings add as the root of their number: this is room for
// 256 on the way to a number. Seen in a healthy model of two layers: 2, and 8 of single rows.
constexpr double kMeanRoundoffs = 16.0;
constexpr double kMeanRoundoffsOfRow = 64.0;
// A tensor far below the largest one of its kind is judged against this share of it, a row against this share of its tensor.
constexpr double kSmallestMeanShare = 1e-4;
constexpr double kSmallestRowShare = 0.1;

double mean_square_root(const double* begin, std::size_t count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) sum += begin[i] * begin[i];
  return count == 0 ? 0.0 : std::sqrt(sum / static_cast<double>(count));
}

}  // namespace

Limits::Limits(const Case& c, const Wanted& oracle) : c_(c), oracle_(oracle) {
  for (const auto& [name, tensor] : oracle_.tensors) {
    double& largest = largest_[kind_of(name)];
    largest = std::max(largest, largest_of(tensor));
  }
  if (c_.level != GoldenLevel::attention) return;
  for (const std::string& name : c_.results) {
    const Number number = number_of(type_of(c_, name));
    const bool narrow = number == Number::bf16 || number == Number::f16;
    if (narrow) narrow_types_.insert(number);
  }
}

double Limits::scale_of(const std::string& name, const Tensor& wanted) const {
  const auto kind = largest_.find(kind_of(name));
  const double of_kind = kind == largest_.end() ? 0.0 : kind->second;
  return std::max(largest_of(wanted), checks::kSmallestScaleShare * of_kind);
}

double Limits::ceiling_of(const std::string& name, double of_float64) const {
  const Number number = number_of(type_of(c_, name));
  if (number == Number::f64) return of_float64;
  return checks::ceiling(terms_of(name, c_), oracles::unit_roundoff(number), summed_in(number));
}

std::optional<Limits::Mean> Limits::mean_of(const std::string& name,
                                            const Tensor& found,
                                            const Tensor& wanted) const {
  const Number number = number_of(type_of(c_, name));
  const bool narrow = number == Number::bf16 || number == Number::f16;
  if (!narrow || has_budget(name) || wanted.data.empty()) return std::nullopt;
  Tensor off = wanted;
  for (std::size_t i = 0; i < off.data.size(); ++i) off.data[i] = found.data[i] - wanted.data[i];
  const double u = oracles::unit_roundoff(number);
  const auto kind = largest_.find(kind_of(name));
  const double least = kind == largest_.end() ? 0.0 : kSmallestMeanShare * kind->second;
  const double size = std::max(mean_square_root(wanted.data.data(), wanted.data.size()), least);
  const auto relative = [](double error, double scale) {
    return error == 0.0 ? 0.0 : error / scale;
  };
  Mean worst{relative(mean_square_root(off.data.data(), off.data.size()), size),
             kMeanRoundoffs * u,
             "on average"};
  if (wanted.shape.size() < 2) return worst;
  const auto width = static_cast<std::size_t>(wanted.shape.back());
  for (std::size_t at = 0; at + width <= off.data.size() && width > 0; at += width) {
    const double of_row =
        std::max(mean_square_root(wanted.data.data() + at, width), kSmallestRowShare * size);
    const Mean row{relative(mean_square_root(off.data.data() + at, width), of_row),
                   kMeanRoundoffsOfRow * u,
                   "on average of one row"};
    if (!(row.error / row.limit <= worst.error / worst.limit)) worst = row;
    if (std::isnan(worst.error)) break;
  }
  return worst;
}

bool Limits::has_budget(const std::string& name) const {
  return name != "blocks" && narrow_types_.count(number_of(type_of(c_, name))) > 0;
}

const Wanted& Limits::narrow(Number number, int draw) const {
  const auto known = narrow_.find({number, draw});
  if (known != narrow_.end()) return known->second;
  return narrow_.emplace(std::pair{number, draw}, narrow_results(c_, oracle_, number, draw))
      .first->second;
}

// In the result's own type, which may be narrower or wider than what it was computed in.
const Tensor& Limits::plain(const std::string& name, int draw) const {
  const auto known = plain_.find({name, draw});
  if (known != plain_.end()) return known->second;
  Tensor tensor = narrow(number_of(type_of(c_, name)), draw).at(name);
  const auto stored = c_.stored.find(name);
  if (stored != c_.stored.end()) {
    for (double& value : tensor.data) value = oracles::rounded(value, number_of(stored->second));
  }
  return plain_.emplace(std::pair{name, draw}, std::move(tensor)).first->second;
}

checks::Spent Limits::spent(const std::string& name,
                            const Tensor& found,
                            const Tensor& wanted) const {
  const Number number = number_of(type_of(c_, name));
  checks::Measured measured{found, wanted, plain(name), number};
  if (kind_of(name) == "gradients") measured.factor = checks::kGradientBudget;
  measured.summed = checks::ceiling(terms_of(name, c_), summed_in(number)) * scale_of(name, wanted);
  checks::tell_heads_apart(measured);
  return checks::spent(measured, [&](int draw) -> const Tensor& { return plain(name, draw); });
}

oracles::Allowed Limits::allowed(const std::string& name) const {
  const Tensor& wanted = oracle_.at(name);
  const double scale = scale_of(name, wanted);
  const double stored = oracles::unit_roundoff(number_of(type_of(c_, name)));
  if (!has_budget(name)) return {ceiling_of(name, kFloat64Oracle), scale, stored};
  const double whole = spent(name, wanted, wanted).whole;
  return {scale > 0.0 ? whole / scale : 0.0, scale, stored};
}

}  // namespace harness::cli::golden
