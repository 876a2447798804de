#include "oracles/attention/bounded.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "oracles/attention/compress.h"
#include "oracles/attention/rope.h"
#include "oracles/linear.h"
#include "oracles/silu.h"

namespace oracles {
namespace {

// An elementary function of a good library is within 4 units in the last place, taken generously
// for what GPUs do.
constexpr double kFunctionUlps = 4;

Tensor magnitudes(Tensor tensor) {
  for (double& value : tensor.data) {
    value = std::abs(value);
  }
  return tensor;
}

// |value| + error: what the computed value is at most.
Tensor reach(const Bounded& b) {
  Tensor sum = magnitudes(b.value);
  for (std::size_t i = 0; i < sum.data.size(); ++i) {
    sum.data[i] += b.error.data[i];
  }
  return sum;
}

// Keeping a result rounds it once more.
void round_once(Bounded& b, double u) {
  for (std::size_t i = 0; i < b.error.data.size(); ++i) {
    b.error.data[i] += u * (std::abs(b.value.data[i]) + b.error.data[i]);
  }
}

// y = W z. A dot product of n computed factors, in any order, is off by at most
// |W| error(z) + gamma_n |W| (|z| + error(z)).
Bounded bounded_linear(const Bounded& z, const Tensor& weight, const Arithmetic& a, int threads) {
  const Tensor w = magnitudes(weight);
  const double g = gamma(static_cast<double>(weight.shape[1]), a.summed);
  Tensor factor = reach(z);
  for (std::size_t i = 0; i < factor.data.size(); ++i) {
    factor.data[i] = z.error.data[i] + g * factor.data[i];
  }
  Bounded y{linear(z.value, weight, threads), linear(factor, w, threads)};
  round_once(y, a.stored);
  return y;
}

// How far cosine and sine of the angle of pair c at t can be off, in absolute terms. The frequency
// f = base^(-2c/d_k) is 1 without error for c = 0; else exp of an argument with up to three roundings
// (logarithm, product, quotient), which are 3 |ln f| u in f, exp itself, and a reciprocal; then the
// product with the position. A scale other than 1 costs two roundings. One in a hundred more pays
// for the terms of second order.
double turn_error(const AttentionConfig& config,
                  std::int64_t t,
                  std::int64_t c,
                  const Arithmetic& a) {
  const double exponent = -2.0 * static_cast<double>(c) / static_cast<double>(config.d_k);
  const double log_frequency = std::abs(exponent * std::log(config.rope_base));
  const double roundings =
      (c == 0 ? 0 : 3 * log_frequency + kFunctionUlps + 2) + (config.rope_scale == 1 ? 0 : 2);
  const double angle_error = 1.01 * std::abs(rope_angle(config, t, c)) * roundings * a.angle;
  const double computed = std::min(2.0, angle_error) + kFunctionUlps * a.summed;
  return computed + a.stored * (1 + computed);
}

// (z0, z1) -> (z0 cos - z1 sin, z0 sin + z1 cos). Products and the sum may each be kept: with the
// errors e of cosine and sine, each product is off by error(z) |cos| + reach(z) e, and three
// roundings of results of at most reach(z) (|cos| + e) follow.
void rotate_bounded(Bounded& z,
                    const AttentionConfig& config,
                    const std::vector<std::int64_t>& positions,
                    const Arithmetic& a) {
  const auto rows = static_cast<std::int64_t>(positions.size());
  const double rounding = gamma(3, a.stored);
  const Tensor most = reach(z);
  const auto vectors = static_cast<std::int64_t>(z.value.data.size()) / config.d_k;
  for (std::int64_t i = 0; i < vectors; ++i) {
    const std::int64_t t = positions[i % rows];
    for (std::int64_t c = 0; c < config.d_k / 2; ++c) {
      double* const error = z.error.data.data() + i * config.d_k + 2 * c;
      const double* const top = most.data.data() + i * config.d_k + 2 * c;
      const double angle = rope_angle(config, t, c);
      const double cosine = std::abs(std::cos(angle));
      const double sine = std::abs(std::sin(angle));
      const double e = turn_error(config, t, c, a);
      const double turned = (top[0] + top[1]) * e;
      const double even = error[0] * cosine + error[1] * sine + turned +
                          rounding * (top[0] * (cosine + e) + top[1] * (sine + e));
      const double odd = error[0] * sine + error[1] * cosine + turned +
                         rounding * (top[0] * (sine + e) + top[1] * (cosine + e));
      error[0] = even;
      error[1] = odd;
    }
  }
  rotate(z.value, config, positions, Turn::forward);
}

// Rotated queries or keys [B,H,R,D] before any compression.
Bounded bounded_heads(const Layer& layer,
                      const Tensor& x,
                      const std::string& weight,
                      std::int64_t heads,
                      const std::vector<std::int64_t>& positions,
                      const Arithmetic& a) {
  const Bounded input{x, zeros(x.shape)};
  const Bounded flat = bounded_linear(input, layer.weight(weight), a, layer.threads);
  Bounded z{split_heads(flat.value, heads), split_heads(flat.error, heads)};
  rotate_bounded(z, layer.config, positions, a);
  return z;
}

// avg and conv: a sum of l products with weights W (avg: 1/l, which is rounded, or the sum
// divided): error |W| error(raw) + gamma_{l+2} |W| reach(raw).
Bounded bounded_pool(const Layer& layer, const Bounded& raw, const Arithmetic& a) {
  Weights absolute;
  for (const auto& [name, weight] : layer.weights) {
    if (name.rfind("phi_k", 0) == 0) {
      absolute[name] = magnitudes(weight);
    }
  }
  const Layer positive{layer.config, absolute, layer.threads};
  const double g = gamma(static_cast<double>(layer.config.l) + 2, a.summed);
  Tensor factor = reach(raw);
  for (std::size_t i = 0; i < factor.data.size(); ++i) {
    factor.data[i] = raw.error.data[i] + g * factor.data[i];
  }
  return {compress(layer, PhiOf::keys, raw.value), compress(positive, PhiOf::keys, factor)};
}

// silu has a slope of at most 1.1. Evaluated at z^: exp(-z^) to a relative error of
// kFunctionUlps (1 + |z^|) u (the argument's rounding counts |z^|), a sum and a quotient.
Bounded bounded_silu(const Bounded& z, const Arithmetic& a) {
  Bounded y{silu(z.value), z.error};
  for (std::size_t i = 0; i < y.error.data.size(); ++i) {
    const double most = std::abs(z.value.data[i]) + z.error.data[i];
    y.error.data[i] = 1.1 * z.error.data[i] + most * (kFunctionUlps * (1 + most) + 4) * a.summed;
  }
  round_once(y, a.stored);
  return y;
}

// out = fc2 silu(fc1 f), f = raw + pe over the window.
Bounded bounded_mlp(const Layer& layer, const Bounded& raw, const Arithmetic& a) {
  const Tensor& pe = layer.weight("phi_k.pe");
  Bounded f{compression_windows(layer.config, pe, raw.value),
            compression_windows(layer.config, zeros(pe.shape), raw.error)};
  round_once(f, a.stored);
  const Bounded z = bounded_linear(f, layer.weight("phi_k.fc1.weight"), a, layer.threads);
  Bounded out =
      bounded_linear(bounded_silu(z, a), layer.weight("phi_k.fc2.weight"), a, layer.threads);
  const Shape shape{raw.value.shape[0],
                    raw.value.shape[1],
                    layer.config.compressed_count(raw.value.shape[2]),
                    layer.config.d_k};
  return {reshaped(std::move(out.value), shape), reshaped(std::move(out.error), shape)};
}

}  // namespace

double gamma(double n, double u) {
  constexpr double kUseless = 1e30;
  return n * u < 1 ? std::min(kUseless, n * u / (1 - n * u)) : kUseless;
}

Arithmetic with_own_rounding(Arithmetic arithmetic) {
  const double own = Arithmetic::float64().stored;
  arithmetic.stored += own;
  arithmetic.summed += own;
  arithmetic.angle += own;
  return arithmetic;
}

Bounded bounded_queries(const Layer& layer,
                        const Tensor& x,
                        const std::vector<std::int64_t>& rows,
                        const Arithmetic& a) {
  const AttentionConfig& config = layer.config;
  Bounded q = bounded_heads(layer, gather_rows(x, rows), "W_Q.weight", config.n_heads, rows, a);
  const Shape shape{x.shape[0],
                    config.n_kv_groups,
                    config.heads_per_group(),
                    static_cast<std::int64_t>(rows.size()),
                    config.d_k};
  return {reshaped(std::move(q.value), shape), reshaped(std::move(q.error), shape)};
}

Bounded bounded_compressed_keys(const Layer& layer, const Tensor& x, const Arithmetic& a) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(x.shape[1]));
  std::iota(positions.begin(), positions.end(), 0);
  const Bounded raw =
      bounded_heads(layer, x, "W_K_cmp.weight", layer.config.n_kv_groups, positions, a);
  Bounded k =
      layer.config.phi == Phi::mlp ? bounded_mlp(layer, raw, a) : bounded_pool(layer, raw, a);
  round_once(k, a.stored);
  return k;
}

}  // namespace oracles
