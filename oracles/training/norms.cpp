#include "oracles/training/norms.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "oracles/expected.h"
#include "oracles/parallel.h"

namespace oracles {
namespace {

constexpr std::int64_t kGrain = 65536;

// Independent sums, so that the processor need not wait for one addition to begin the next.
constexpr std::int64_t kPartialSums = 8;

struct Sums {
  double squares = 0;
  double magnitudes = 0;
  double largest = 0;
};

Sums sums_of(const Numbers& numbers) {
  const std::vector<double> values = numbers.values();
  double squares[kPartialSums] = {};
  double magnitudes[kPartialSums] = {};
  Sums sums;
  std::size_t i = 0;
  for (; i + kPartialSums <= values.size(); i += kPartialSums) {
    for (std::int64_t lane = 0; lane < kPartialSums; ++lane) {
      const double value = values[i + static_cast<std::size_t>(lane)];
      squares[lane] += value * value;
      magnitudes[lane] += std::abs(value);
      sums.largest = std::max(sums.largest, std::abs(value));
    }
  }
  for (; i < values.size(); ++i) {
    squares[0] += values[i] * values[i];
    magnitudes[0] += std::abs(values[i]);
    sums.largest = std::max(sums.largest, std::abs(values[i]));
  }
  for (std::int64_t lane = 0; lane < kPartialSums; ++lane) {
    sums.squares += squares[lane];
    sums.magnitudes += magnitudes[lane];
  }
  return sums;
}

Sums sums_of_all(const Numbers& numbers, int threads) {
  const std::int64_t count = numbers.size();
  std::vector<Sums> pieces(static_cast<std::size_t>((count + kGrain - 1) / kGrain));
  parallel_for(count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
    pieces[static_cast<std::size_t>(begin / kGrain)] = sums_of(numbers.part(begin, end - begin));
  });
  Sums all;
  for (const Sums& piece : pieces) {
    all.squares += piece.squares;
    all.magnitudes += piece.magnitudes;
    all.largest = std::max(all.largest, piece.largest);
  }
  return all;
}

// The norms of the recorded gradients, and what else the run recorded.
struct NormsFound {
  const GradientNorms& scaled;
  const NormFacts& facts;
  double roundoff;

  [[nodiscard]] double bound(double norm) const { return roundoff * std::abs(norm); }
};

double right_norm(const NormsFound& in) {
  return in.scaled.all / in.facts.loss_scale;
}

const std::vector<WrongLaw<NormsFound>>& norm_rules() {
  using In = const NormsFound&;
  static const std::vector<WrongLaw<NormsFound>> kRules{
      {{"norm_scaled", "the norm is taken before the gradients are unscaled"},
       [](In in) { return in.scaled.all; }},
      {{"norm_squared", "the sum of squares, without the root"},
       [](In in) { return right_norm(in) * right_norm(in); }},
      {{"norm_summed", "the parameters' norms are added up"},
       [](In in) {
         double sum = 0;
         for (const double norm : in.scaled.of) {
           sum += norm;
         }
         return sum / in.facts.loss_scale;
       }},
      {{"norm_of_magnitudes", "the sum of magnitudes (L1)"},
       [](In in) { return in.scaled.sum / in.facts.loss_scale; }},
      {{"norm_largest", "the largest magnitude"},
       [](In in) { return in.scaled.largest / in.facts.loss_scale; }},
      {{"norm_of_first", "the norm of the first parameter alone"},
       [](In in) {
         return in.scaled.of.empty() ? NAN : in.scaled.of.front() / in.facts.loss_scale;
       }},
      {{"norm_of_last", "the norm of the last parameter alone"},
       [](In in) {
         return in.scaled.of.empty() ? NAN : in.scaled.of.back() / in.facts.loss_scale;
       }},
      {{"norm_mean", "the root of the mean of squares"},
       [](In in) {
         double count = 0;
         for (const Numbers& gradient : in.facts.gradients) {
           count += static_cast<double>(gradient.size());
         }
         return right_norm(in) / std::sqrt(count);
       }},
      {{"norm_local", "the norm of the rank's own gradients, before the reduction"},
       [](In in) {
         return in.facts.local_norm > 0 ? std::optional(in.facts.local_norm) : std::nullopt;
       }},
      {{"norm_times_world", "world times the norm"},
       [](In in) { return right_norm(in) * static_cast<double>(in.facts.world); }},
      {{"norm_reduced_twice", "sqrt(world) times the norm: squares are summed over equal ranks"},
       [](In in) { return right_norm(in) * std::sqrt(static_cast<double>(in.facts.world)); }},
      {{"norm_over_world", "the norm divided by world"},
       [](In in) { return right_norm(in) / static_cast<double>(in.facts.world); }},
      {{"norm_after_clipping", "the norm of the clipped gradients"},
       [](In in) { return right_norm(in) * clip_factor(right_norm(in), in.facts.max_norm); }}};
  return kRules;
}

struct Clipping {
  double norm;
  double most;
  double roundoff;

  [[nodiscard]] double bound(double coefficient) const { return roundoff * std::abs(coefficient); }
};

const std::vector<WrongLaw<Clipping>>& coefficient_rules() {
  using In = const Clipping&;
  static const std::vector<WrongLaw<Clipping>> kRules{
      {{"coefficient_one", "gradients are not clipped"}, [](In) { return 1.0; }},
      {{"coefficient_not_limited", "short gradients are stretched to max_norm"},
       [](In in) { return in.most / (in.norm + 1e-6); }},
      {{"coefficient_of_one", "max_norm is taken as 1"},
       [](In in) { return clip_factor(in.norm, 1); }},
      {{"coefficient_squared", "the coefficient's square"},
       [](In in) { return std::pow(clip_factor(in.norm, in.most), 2); }},
      {{"coefficient_root", "the coefficient's root"},
       [](In in) { return std::sqrt(clip_factor(in.norm, in.most)); }},
      {{"coefficient_inverse", "the norm over max_norm"}, [](In in) { return in.norm / in.most; }},
      {{"coefficient_zero", "gradients are multiplied by 0"}, [](In) { return 0.0; }}};
  return kRules;
}

}  // namespace

GradientNorms gradient_norms(std::span<const Numbers> gradients, int threads) {
  GradientNorms norms;
  double squares = 0;
  for (const Numbers& gradient : gradients) {
    const Sums sums = sums_of_all(gradient, threads);
    norms.of.push_back(std::sqrt(sums.squares));
    squares += sums.squares;
    norms.sum += sums.magnitudes;
    norms.largest = std::max(norms.largest, sums.largest);
  }
  norms.all = std::sqrt(squares);
  return norms;
}

double norm_roundoff(std::int64_t largest, Number number) {
  const double u = unit_roundoff(number) + unit_roundoff(Number::f64);
  return (static_cast<double>(largest) / 64 + 8) * u;
}

std::span<const Law> norm_laws() {
  static const std::vector<Law> kLaws = laws_of(norm_rules());
  return kLaws;
}
std::span<const Law> coefficient_laws() {
  static const std::vector<Law> kLaws = laws_of(coefficient_rules());
  return kLaws;
}

Naming name_norm(double recorded, const NormFacts& facts) {
  const GradientNorms scaled = gradient_norms(facts.gradients, facts.threads);
  std::int64_t largest = 0;
  for (const Numbers& gradient : facts.gradients) {
    largest = std::max(largest, gradient.size());
  }
  const NormsFound in{scaled, facts, norm_roundoff(largest, facts.number)};
  return name_number(norm_rules(), in, recorded, right_norm(in));
}

Naming name_coefficient(double recorded, double recorded_norm, double max_norm, Number number) {
  const double roundoff = 8 * (unit_roundoff(number) + unit_roundoff(Number::f64));
  const double right = clip_factor(recorded_norm, max_norm);
  return name_number(coefficient_rules(), {recorded_norm, max_norm, roundoff}, recorded, right);
}

namespace {

// Sums of the fit over one piece.
struct FitSums {
  double along = 0;    // (m after - beta1 m) (1 - beta1) g
  double squares = 0;  // ((1 - beta1) g)^2
  double beside = 0;   // |m (1 - beta1) g|
  double slopes = 0;   // |(1 - beta1) g|

  void add(const FitSums& other) {
    along += other.along;
    squares += other.squares;
    beside += other.beside;
    slopes += other.slopes;
  }
};

FitSums fit_sums(const UpdateRecord& r, double beta1, std::int64_t begin, std::int64_t end) {
  const std::int64_t count = end - begin;
  const std::vector<double> after = r.m_after.part(begin, count).values();
  const std::vector<double> g = r.gradient.part(begin, count).values();
  const std::vector<double> before = r.m_before.empty() ? std::vector<double>(after.size(), 0.0)
                                                        : r.m_before.part(begin, count).values();
  FitSums sums;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double own = (1 - beta1) * g[i];
    sums.along += (after[i] - beta1 * before[i]) * own;
    sums.squares += own * own;
    sums.beside += std::abs(before[i] * own);
    sums.slopes += std::abs(own);
  }
  return sums;
}

FitSums fit_sums(const UpdateRecord& record, double beta1, int threads) {
  const std::int64_t count = record.gradient.size();
  if (record.m_after.size() != count ||
      (!record.m_before.empty() && record.m_before.size() != count)) {
    throw std::invalid_argument(record.name + ": m has " + std::to_string(record.m_after.size()) +
                                " numbers, wanted " + std::to_string(count));
  }
  std::vector<FitSums> pieces(static_cast<std::size_t>((count + kGrain - 1) / kGrain));
  parallel_for(count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
    pieces[static_cast<std::size_t>(begin / kGrain)] = fit_sums(record, beta1, begin, end);
  });
  FitSums all;
  for (const FitSums& piece : pieces) {
    all.add(piece);
  }
  return all;
}

}  // namespace

// Least squares: factor = along / squares. An error e of m moves it by sum(e (1 - beta1) g) / squares,
// and |e| <= 9 u (|m| + |(1 - beta1) factor g|) + f: the roundings of m and of the gradient's factor,
// as in judge_adamw.h.
FittedFactor fitted_factor(std::span<const UpdateRecord> records,
                           const UpdateSettings& settings,
                           int threads) {
  FitSums sums;
  for (const UpdateRecord& record : records) {
    sums.add(fit_sums(record, settings.beta1, threads));
  }
  if (!(sums.squares > 0)) {
    throw std::invalid_argument("the gradients are all 0: no factor can be fitted");
  }
  const double factor = sums.along / sums.squares;
  const double u = unit_roundoff(settings.number) + unit_roundoff(Number::f64);
  const double error = 9 * u * (sums.beside + std::abs(factor) * sums.squares) +
                       smallest_normal(settings.number) * sums.slopes;
  return {factor, error / sums.squares / std::abs(factor)};
}

}  // namespace oracles
