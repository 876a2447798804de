// Wrong laws of the norms of a block, forward and backward.
#include <cmath>
#include <functional>
#include <utility>

#include "oracles/model/norm_stage.h"

namespace oracles {
namespace {

// A norm with other terms. y = (x - centre mean(x)) * r * (gain_offset + gain^gain_power).
struct NormTerms {
  double inside = 1e-6;     // added under the root
  double outside = 0;       // added to the root
  double centre = 0;        // share of the mean that is subtracted
  bool summed = false;      // the sum of squares in the place of their mean
  bool unrooted = false;    // divided by the mean of squares, not by its root
  bool unnormed = false;    // not divided at all
  bool magnitudes = false;  // divided by the mean of magnitudes
  double gain_offset = 0;
  double gain_power = 1;
  Number kept = Number::f64;          // x r is rounded to this before the gain
  Number intermediate = Number::f64;  // every step is
};

double divisor(const std::vector<double>& z, const NormTerms& t) {
  double squares = 0;
  double magnitudes = 0;
  for (const double value : z) {
    squares += rounded(value * value, t.intermediate);
    magnitudes += std::abs(value);
  }
  const auto width = static_cast<double>(z.size());
  if (t.unnormed) {
    return 1;
  }
  if (t.magnitudes) {
    return magnitudes / width;
  }
  const double mean = rounded(t.summed ? squares : squares / width, t.intermediate);
  const double under = rounded(mean + t.inside, t.intermediate);
  return t.unrooted ? under : std::sqrt(under) + t.outside;
}

Expected norm_under(const Tensor& x,
                    const Tensor& gain,
                    const Rounding& rounding,
                    const NormTerms& t) {
  const std::int64_t width = x.shape[1];
  const double relative = rounding.stored + (sum_roundoff(width) / 2 + 6) * rounding.summed;
  Expected e{zeros(x.shape), zeros(x.shape)};
  for (std::int64_t row = 0; row < x.shape[0]; ++row) {
    const auto begin = x.data.begin() + row * width;
    std::vector<double> z(begin, begin + width);
    double mean = 0;
    for (double& value : z) {
      value = rounded(value, t.intermediate);
      mean += value / static_cast<double>(width);
    }
    for (double& value : z) {
      value -= t.centre * mean;
    }
    const double r = rounded(1 / divisor(z, t), t.intermediate);
    for (std::int64_t i = 0; i < width; ++i) {
      const double g = t.gain_offset + std::pow(gain.data[i], t.gain_power);
      const double normed = rounded(rounded(z[i] * r, t.intermediate), t.kept);
      const double y = rounded(normed * g, t.intermediate);
      const std::int64_t at = row * width + i;
      e.value.data[at] = y;
      e.bound.data[at] =
          relative * (std::abs(y) + std::abs(t.centre * mean * r * g)) + rounding.flushed;
    }
  }
  return e;
}

using Rule = WrongLaw<NormInputs>;

Rule changed(std::string_view name, std::string_view about, void (*change)(NormTerms&)) {
  return {{name, about}, [change](const NormInputs& in, std::size_t) {
            NormTerms terms;
            change(terms);
            return norm_under(in.x, in.gain, in.rounding, terms);
          }};
}

std::vector<std::string> names_of(const std::vector<NamedRows>& rows) {
  std::vector<std::string> names;
  for (const NamedRows& named : rows) {
    names.push_back(named.name);
  }
  return names;
}

constexpr LastLaws kLastNorm{{"rms_factor", "the norm's result times a factor"},
                             {"rms_kept_narrow", "the norm's result has fewer digits"}};

std::vector<Rule> term_rules() {
  using T = NormTerms&;
  return {
      changed("rms_eps_missing", "1e-6 is not added under the root", [](T t) { t.inside = 0; }),
      changed("rms_eps_1e-5", "1e-5 is added in the place of 1e-6", [](T t) { t.inside = 1e-5; }),
      changed("rms_eps_1e-8", "1e-8 is added in the place of 1e-6", [](T t) { t.inside = 1e-8; }),
      changed("rms_eps_outside",
              "1e-6 is added to the root, not under it",
              [](T t) {
                t.inside = 0;
                t.outside = 1e-6;
              }),
      changed("rms_centred", "the mean is subtracted first (LayerNorm)", [](T t) { t.centre = 1; }),
      changed("rms_summed",
              "the sum of squares in the place of their mean",
              [](T t) { t.summed = true; }),
      changed("rms_unrooted",
              "divided by the mean of squares, not by its root",
              [](T t) { t.unrooted = true; }),
      changed("rms_of_magnitudes",
              "divided by the mean of magnitudes",
              [](T t) { t.magnitudes = true; }),
      changed("rms_not_divided",
              "the gain alone, not divided by the root",
              [](T t) { t.unnormed = true; }),
      changed("rms_skipped",
              "the norm gives what it is given",
              [](T t) {
                t.unnormed = true;
                t.gain_power = 0;
              }),
      changed("rms_gain_missing", "not multiplied by the gain", [](T t) { t.gain_power = 0; }),
      changed("rms_gain_plus_one", "multiplied by 1 + gain", [](T t) { t.gain_offset = 1; }),
      changed("rms_gain_twice", "multiplied by the gain twice", [](T t) { t.gain_power = 2; }),
      changed("rms_gain_divides", "divided by the gain", [](T t) { t.gain_power = -1; }),
      changed("rms_in_bfloat16",
              "every step of the norm is rounded to bfloat16",
              [](T t) { t.intermediate = Number::bf16; }),
      changed("rms_rounded_before_gain",
              "rounded to bfloat16 before it is multiplied by the gain",
              [](T t) { t.kept = Number::bf16; }),
      changed("rms_rounded_to_half_before_gain",
              "rounded to float16 before it is multiplied by the gain",
              [](T t) { t.kept = Number::f16; })};
}

const std::vector<Rule>& forward_rules() {
  static const std::vector<Rule> kRules = [] {
    std::vector<Rule> rules = term_rules();
    rules.push_back({{"rms_of_other_input", "the norm of another tensor"},
                     [](const NormInputs& in, std::size_t choice) {
                       return expected_norm(in.other_inputs[choice].rows, in.gain, in.rounding);
                     },
                     [](const NormInputs& in) { return names_of(in.other_inputs); }});
    rules.push_back({{"rms_of_other_gain", "the gain of another norm"},
                     [](const NormInputs& in, std::size_t choice) {
                       return expected_norm(in.x, in.other_gains[choice].rows, in.rounding);
                     },
                     [](const NormInputs& in) { return names_of(in.other_gains); }});
    rules.push_back({{"rms_zero", "the norm gives zeros"}, [](const NormInputs& in, std::size_t) {
                       return Expected{zeros(in.x.shape), zeros(in.x.shape)};
                     }});
    return rules;
  }();
  return kRules;
}

// Backward, from the same recorded rows.
using GradientRule = WrongLaw<NormGradientInputs>;

// own_share r gain dy - pull_share (second term)
Expected gradient_under(const NormGradientInputs& in,
                        double own_share,
                        double pull_share,
                        bool summed,
                        double gain_power) {
  NormInputs other = in.forward;
  for (double& gain : other.gain.data) {
    gain = std::pow(gain, gain_power);
  }
  const Expected right = expected_norm_gradient(other.x, other.gain, in.dy, other.rounding);
  Expected e = right;
  const std::int64_t width = other.x.shape[1];
  for (std::int64_t row = 0; row < other.x.shape[0]; ++row) {
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      squares += std::pow(other.x.data[row * width + i], 2);
    }
    const double r = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-6);
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int64_t at = row * width + i;
      const double own = r * other.gain.data[i] * in.dy.data[at];
      const double pull = own - right.value.data[at];
      e.value.data[at] =
          own_share * own - pull_share * pull * (summed ? static_cast<double>(width) : 1);
      const double stored = in.forward.rounding.stored;
      e.bound.data[at] -= stored * std::abs(right.value.data[at]);
      e.bound.data[at] *= summed ? static_cast<double>(width) : 1;
      e.bound.data[at] += stored * std::abs(e.value.data[at]);
    }
  }
  return e;
}

const std::vector<GradientRule>& gradient_rules() {
  const auto with = [](double own, double pull, bool summed, double gain_power) {
    return [=](const NormGradientInputs& in, std::size_t) {
      return gradient_under(in, own, pull, summed, gain_power);
    };
  };
  static const std::vector<GradientRule> kRules{
      {{"rms_gradient_of_constant", "the root is taken as a constant: its gradient is missing"},
       with(1, 0, false, 1)},
      {{"rms_gradient_of_root_alone", "only the root's gradient"}, with(0, 1, false, 1)},
      {{"rms_gradient_root_sign", "the root's gradient is added, not subtracted"},
       with(1, -1, false, 1)},
      {{"rms_gradient_root_summed", "the root's gradient is not divided by the width"},
       with(1, 1, true, 1)},
      {{"rms_gradient_root_halved", "half of the root's gradient"}, with(1, 0.5, false, 1)},
      {{"rms_gradient_without_gain", "the gain is left out of the gradient"}, with(1, 1, false, 0)},
      {{"rms_gradient_passed_on", "the gradient goes past the norm"},
       [](const NormGradientInputs& in, std::size_t) {
         return rounded_once(in.dy, in.forward.rounding.stored);
       }},
      {{"rms_gradient_zero", "no gradient passes the norm"},
       [](const NormGradientInputs& in, std::size_t) {
         return Expected{zeros(in.dy.shape), zeros(in.dy.shape)};
       }},
      {{"rms_gradient_of_other_input", "the gradient at another tensor"},
       [](const NormGradientInputs& in, std::size_t choice) {
         return expected_norm_gradient(
             in.forward.other_inputs[choice].rows, in.forward.gain, in.dy, in.forward.rounding);
       },
       [](const NormGradientInputs& in) { return names_of(in.forward.other_inputs); }}};
  return kRules;
}

constexpr LastLaws kLastGradient{
    {"rms_gradient_factor", "the gradient behind the norm times a factor"},
    {"rms_gradient_kept_narrow", "the gradient behind the norm has fewer digits"}};

Expected gain_of_rows(const GainInputs& in, std::int64_t begin, std::int64_t count, double share) {
  const auto part = [&](const Matrix& m) {
    return Matrix{m.numbers.part(begin * m.columns, count * m.columns), count, m.columns};
  };
  return expected_gain_gradient(part(in.x), in.gain, part(in.dy), in.rounding, share * in.scale);
}
using GainRule = WrongLaw<GainInputs>;

const std::vector<GainRule>& gain_rules() {
  const auto times_gain = [](double power) {
    return [power](const GainInputs& in, std::size_t) {
      Expected e = gain_of_rows(in, 0, in.x.rows, 1);
      for (std::size_t i = 0; i < in.gain.data.size(); ++i) {
        const double factor = std::pow(in.gain.data[i], power);
        e.value.data[i] *= factor;
        e.bound.data[i] *= std::abs(factor);
      }
      return e;
    };
  };
  static const std::vector<GainRule> kRules{
      {{"gain_gradient_mean", "the mean over rows in the place of the sum"},
       [](const GainInputs& in, std::size_t) {
         return gain_of_rows(in, 0, in.x.rows, 1 / static_cast<double>(in.x.rows));
       }},
      {{"gain_gradient_times_gain", "multiplied by the gain once too often"}, times_gain(1)},
      {{"gain_gradient_over_gain", "divided by the gain"}, times_gain(-1)},
      {{"gain_gradient_not_normed", "x in the place of its norm"},
       [](const GainInputs& in, std::size_t) {
         Expected e{zeros(in.gain.shape), zeros(in.gain.shape)};
         for (std::int64_t row = 0; row < in.x.rows; ++row) {
           for (std::int64_t i = 0; i < in.x.columns; ++i) {
             const double term = in.scale * in.x.row(row)[i] * in.dy.row(row)[i];
             e.value.data[i] += term;
             e.bound.data[i] += std::abs(term) * (sum_roundoff(in.x.rows) + 4) * in.rounding.summed;
           }
         }
         for (std::size_t i = 0; i < e.value.data.size(); ++i) {
           e.bound.data[i] += in.rounding.stored * std::abs(e.value.data[i]);
         }
         return e;
       }},
      {{"gain_gradient_of_one_sequence", "the rows of one sequence only"},
       [](const GainInputs& in, std::size_t choice) {
         const std::int64_t rows = in.x.rows / in.batch;
         return gain_of_rows(in, static_cast<std::int64_t>(choice) * rows, rows, 1);
       },
       [](const GainInputs& in) {
         std::vector<std::string> names;
         for (std::int64_t b = 0; in.batch > 1 && b < in.batch; ++b) {
           names.push_back("sequence " + std::to_string(b));
         }
         return names;
       }},
      {{"gain_gradient_zero", "zeros"}, [](const GainInputs& in, std::size_t) {
         return Expected{zeros(in.gain.shape), zeros(in.gain.shape)};
       }}};
  return kRules;
}

constexpr LastLaws kLastGain{{"gain_gradient_factor", "the gain's gradient times a factor"},
                             {"gain_gradient_kept_narrow", "the gain's gradient has fewer digits"}};

}  // namespace

const StageLibrary<NormInputs>& norm_stage_laws() {
  static const StageLibrary<NormInputs> kLibrary(
      forward_rules(), kLastNorm, [](const NormInputs& in) {
        return expected_norm(in.x, in.gain, in.rounding);
      });
  return kLibrary;
}

const StageLibrary<NormGradientInputs>& norm_gradient_laws() {
  static const StageLibrary<NormGradientInputs> kLibrary(
      gradient_rules(), kLastGradient, [](const NormGradientInputs& in) {
        return expected_norm_gradient(in.forward.x, in.forward.gain, in.dy, in.forward.rounding);
      });
  return kLibrary;
}

const StageLibrary<GainInputs>& gain_gradient_laws() {
  static const StageLibrary<GainInputs> kLibrary(gain_rules(), kLastGain, [](const GainInputs& in) {
    return expected_gain_gradient(in.x, in.gain, in.dy, in.rounding, in.scale);
  });
  return kLibrary;
}

}  // namespace oracles
