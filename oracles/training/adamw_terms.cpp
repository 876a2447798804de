// Loops without branches over blocks that fit a cache: the compiler makes vectors of them.
#include "oracles/training/adamw_terms.h"

#include <algorithm>
#include <cmath>

#include "oracles/lanes.h"

// No element of a loop depends on another.
#if defined(__GNUC__) && !defined(__clang__)
#define NSA_INDEPENDENT _Pragma("GCC ivdep")
#else
#define NSA_INDEPENDENT
#endif

namespace oracles {
namespace {

// What is kept in registers of a loop over a block.
struct Moments {
  const double* m;
  const double* m_error;
  const double* v;
  const double* v_error;
};

void load_part(const Numbers& numbers, std::int64_t begin, std::int64_t count, UpdateLane& to) {
  if (numbers.empty()) {
    std::fill_n(to.begin(), count, 0.0);
    return;
  }
  numbers.part(begin, count).copy_to(to.data());
}

NSA_WIDEST_VECTORS void evaluate_moments(const UpdateTerms& terms,
                                         const UpdateBlock& in,
                                         std::int64_t count,
                                         UpdateResult& out,
                                         double* gradient,
                                         double* gradient_error) {
  const UpdateTerms t = terms;  // nobody else's memory: what is written below cannot change it
  const double u = t.u;
  const double f = t.flushed;
  NSA_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    const double own = t.factor * in.gradient[i];
    const double decay = t.l2 * in.p[i];
    const double free = own + decay;
    const double g = std::min(std::max(free, -t.clamp), t.clamp);
    const double dg =
        t.factor_error * std::abs(own) + 3 * u * (std::abs(own) + std::abs(decay)) + f;
    gradient[i] = g;
    gradient_error[i] = dg;

    out.m[i] = t.m_keep * in.m[i] + t.m_take * g;
    const double m_sizes =
        std::abs(t.m_keep * in.m[i]) + std::abs(t.m_take) * (std::abs(g) + std::abs(in.m[i]));
    out.m_bound[i] = std::abs(t.m_take) * dg + 6 * u * m_sizes + f;

    const double w = t.v_factor * g;
    const double dw = std::abs(t.v_factor) * dg;
    out.v[i] = t.v_keep * in.v[i] + t.v_take * w * w;
    const double v_sizes = std::abs(t.v_keep * in.v[i]) + std::abs(t.v_take) * (w * w + in.v[i]);
    out.v_bound[i] = std::abs(t.v_take) * (2 * std::abs(w) * dw + dw * dw) + 6 * u * v_sizes + f;
  }
}

NSA_WIDEST_VECTORS void evaluate_parameters(const UpdateTerms& terms,
                                            const UpdateBlock& in,
                                            const Moments& moments,
                                            const double* gradient,
                                            const double* gradient_error,
                                            std::int64_t count,
                                            UpdateResult& out) {
  const UpdateTerms t = terms;
  const double u = t.u;
  const double root_flushed = std::sqrt(t.flushed);
  constexpr double kTiny = std::numeric_limits<double>::min();
  NSA_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    const double squares = moments.v[i] + t.inside;
    const double s = std::sqrt(squares);
    const double lowest = std::sqrt(std::max(squares - moments.v_error[i], 0.0));
    const double ds = (s - lowest) + 2 * u * s + root_flushed;
    const double d = t.root * (s + t.middle) + t.outside;
    const double dd = t.root * ds + 5 * u * d;
    const double least = std::max(d - dd, kTiny);

    const double direction = t.use_m * moments.m[i] + t.use_g * gradient[i];
    const double direction_error =
        std::abs(t.use_m) * moments.m_error[i] + std::abs(t.use_g) * gradient_error[i];
    const double step = t.lr * direction / d;
    const double relative = dd / least + 8 * u;
    const double step_error = std::abs(t.lr) * direction_error / least + std::abs(step) * relative;

    const double kept = t.keep * in.p[i];
    out.p[i] = kept - step;
    out.p_bound[i] = 3 * u * std::abs(kept) + 2 * u * std::abs(out.p[i]) + step_error + t.flushed;
  }
}

NSA_WIDEST_VECTORS void compare_block(const double* found,
                                      const double* wanted,
                                      const double* bound,
                                      std::int64_t count,
                                      double* times) {
  NSA_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    times[i] = std::abs(found[i] - wanted[i]) / bound[i];
  }
}

}  // namespace

UpdateTerms right_terms(const UpdateSettings& s) {
  const auto n = static_cast<double>(s.n);
  UpdateTerms t;
  t.factor = s.factor;
  t.factor_error = s.factor_error;
  t.m_keep = s.beta1;
  t.m_take = 1 - s.beta1;
  t.v_keep = s.beta2;
  t.v_take = 1 - s.beta2;
  t.root = 1 / std::sqrt(1 - std::pow(s.beta2, n));
  t.use_m = 1 / (1 - std::pow(s.beta1, n));
  t.outside = s.eps;
  t.keep = 1 - s.lr * s.weight_decay;
  t.lr = s.lr;
  t.u = unit_roundoff(s.number) + unit_roundoff(Number::f64);
  t.flushed = smallest_normal(s.number);
  return t;
}

void load(const UpdateRecord& record, std::int64_t begin, std::int64_t count, UpdateBlock& block) {
  load_part(record.p_before, begin, count, block.p);
  load_part(record.m_before, begin, count, block.m);
  load_part(record.v_before, begin, count, block.v);
  load_part(record.gradient, begin, count, block.gradient);
  load_part(record.p_after, begin, count, block.p_after);
  block.has_m = !record.m_after.empty();
  block.has_v = !record.v_after.empty();
  if (block.has_m) {
    load_part(record.m_after, begin, count, block.m_after);
  }
  if (block.has_v) {
    load_part(record.v_after, begin, count, block.v_after);
  }
}

void evaluate(const UpdateTerms& terms,
              const UpdateBlock& block,
              std::int64_t count,
              UpdateResult& result) {
  static constexpr UpdateLane kNoError{};
  UpdateLane gradient;
  UpdateLane gradient_error;
  evaluate_moments(terms, block, count, result, gradient.data(), gradient_error.data());
  Moments moments{result.m.data(), result.m_bound.data(), result.v.data(), result.v_bound.data()};
  if (terms.old_moments) {
    moments = {block.m.data(), kNoError.data(), block.v.data(), kNoError.data()};
  } else {
    if (block.has_m) {
      moments.m = block.m_after.data();
      moments.m_error = kNoError.data();
    }
    if (block.has_v) {
      moments.v = block.v_after.data();
      moments.v_error = kNoError.data();
    }
  }
  evaluate_parameters(terms, block, moments, gradient.data(), gradient_error.data(), count, result);
}

LaneMisfit compare(const UpdateLane& found,
                   const UpdateLane& wanted,
                   const UpdateLane& bound,
                   std::int64_t count) {
  UpdateLane times;
  compare_block(found.data(), wanted.data(), bound.data(), count, times.data());
  LaneMisfit misfit;
  std::int64_t nans = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    misfit.wrong += times[i] <= 1 ? 0 : 1;
    nans += std::isnan(times[i]) ? 1 : 0;
    misfit.worst = times[i] > misfit.worst ? times[i] : misfit.worst;
  }
  if (nans > 0) {
    misfit.worst = std::numeric_limits<double>::infinity();
  }
  return misfit;
}

}  // namespace oracles
