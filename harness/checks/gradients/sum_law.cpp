#include "harness/checks/gradients/sum_law.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/checks/ceilings.h"
#include "harness/checks/largest.h"
#include "nsa/base/error.h"
#include "oracles/numbers.h"

namespace harness::checks {
namespace {

std::vector<Reals> readers(const nsa::TensorView& reduced,
                           const std::vector<nsa::TensorView>& locals) {
  std::vector<Reals> all;
  all.reserve(locals.size());
  for (const nsa::TensorView& view : locals) {
    if (view.shape != reduced.shape || view.dtype != reduced.dtype) {
      throw nsa::Error(view.where + ": not of the shape and dtype of " + reduced.where);
    }
    all.emplace_back(view);
  }
  return all;
}

struct Sum {
  double mean = 0.0;
  double absolute = 0.0;
};

Sum sum_at(const std::vector<Reals>& locals, std::size_t i) {
  Sum sum;
  for (const Reals& local : locals) {
    sum.mean += local[i];
    sum.absolute += std::abs(local[i]);
  }
  sum.mean /= static_cast<double>(locals.size());
  return sum;
}

// The spacing of a type's smallest numbers: below it none has digits left to be relative to.
double smallest(double unit_roundoff) {
  if (unit_roundoff >= kBf16Roundoff) return 0x1p-133;  // of bfloat16, 16 bits fewer than a float's
  if (unit_roundoff >= oracles::unit_roundoff(oracles::Number::f16)) return 0x1p-24;
  return unit_roundoff < 0x1p-40 ? std::numeric_limits<double>::denorm_min()
                                 : std::numeric_limits<float>::denorm_min();
}

bool is_bf16(double x) {
  return oracles::rounded(x, oracles::Number::bf16) == x;
}

// Of a quotient that was a float32 before.
double as_bf16(double x) {
  return oracles::rounded(oracles::rounded(x, oracles::Number::f32), oracles::Number::bf16);
}

bool is_sum_of_rounded(const Reals& g, const std::vector<Reals>& g_r) {
  const double world = static_cast<double>(g_r.size());
  for (std::size_t i = 0; i < g.size(); ++i) {
    double sum = 0.0;
    double absolute = 0.0;
    for (const Reals& local : g_r) {
      const double addend = as_bf16(local[i] / world);
      sum += addend;
      absolute += std::abs(addend);
    }
    const double bound = world * (g.unit_roundoff() * absolute + smallest(g.unit_roundoff()));
    if (!(std::abs(g[i] - sum) <= bound)) return false;
  }
  return true;
}

}  // namespace

Narrowed narrowed_to_bf16(const nsa::TensorView& reduced,
                          const std::vector<nsa::TensorView>& locals) {
  const Reals g(reduced);
  const std::vector<Reals> g_r = readers(reduced, locals);
  if (g.unit_roundoff() >= kBf16Roundoff) return {};
  bool all = true;
  for (std::size_t i = 0; i < g.size() && all; ++i) all = is_bf16(g[i]);
  return {all && !compare_with_mean(reduced, locals, kBf16Roundoff).violated,
          is_sum_of_rounded(g, g_r)};
}

SumOfTensor compare_with_mean(const nsa::TensorView& reduced,
                              const std::vector<nsa::TensorView>& locals,
                              double travelling) {
  const Reals g(reduced);
  const std::vector<Reals> g_r = readers(reduced, locals);
  const double world = static_cast<double>(locals.size());
  SumOfTensor seen;
  seen.unit_roundoff = std::max(g.unit_roundoff(), travelling);
  const double least = std::max(smallest(g.unit_roundoff()), smallest(seen.unit_roundoff));
  for (std::size_t i = 0; i < g.size(); ++i) {
    const Sum sum = sum_at(g_r, i);
    const double bound = world * (seen.unit_roundoff * sum.absolute + least);
    const double difference = std::abs(g[i] - sum.mean);
    if (!(difference <= bound)) seen.violated = true;
    raise_to(seen.worst, difference / bound);
    seen.with_mean += g[i] * sum.mean;
    seen.mean_mean += sum.mean * sum.mean;
  }
  return seen;
}

double factor_residual(const nsa::TensorView& reduced,
                       const std::vector<nsa::TensorView>& locals,
                       double factor) {
  const Reals g(reduced);
  const std::vector<Reals> g_r = readers(reduced, locals);
  double left = 0.0;
  double scale = 0.0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double wanted = factor * sum_at(g_r, i).mean;
    left += (g[i] - wanted) * (g[i] - wanted);
    scale += wanted * wanted;
  }
  if (left == 0.0) return 0.0;
  return std::sqrt(left / scale);
}

std::optional<double> constant_factor(const nsa::SafetensorsFile& own,
                                      const nsa::SafetensorsFile& other,
                                      const std::vector<std::string>& params) {
  double with = 0.0;
  double square = 0.0;
  double limit = 0.0;
  for (const std::string& param : params) {
    if (!own.contains(param) || !other.contains(param)) return std::nullopt;
    const SumOfTensor seen = compare_with_mean(own.at(param), {other.at(param)});
    with += seen.with_mean;
    square += seen.mean_mean;
    limit = factor_limit(seen.unit_roundoff);
  }
  const double factor = with / square;
  if (!(std::abs(factor - 1.0) > limit) || !std::isfinite(factor)) return std::nullopt;
  for (const std::string& param : params) {
    if (!(factor_residual(own.at(param), {other.at(param)}, factor) <= limit)) return std::nullopt;
  }
  return factor;
}

}  // namespace harness::checks
