// Attention the long way, over keys that a predicate names: no ranges, no tiles, no shared code.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracles/attention/attention.h"

namespace oracles::testing {

using Vector = std::vector<double>;

// Row `row` of W [.., in] times x[b,t].
inline double product(
    const Tensor& weight, std::int64_t row, const Tensor& x, std::int64_t b, std::int64_t t) {
  const std::int64_t width = x.shape[2];
  double sum = 0;
  for (std::int64_t k = 0; k < width; ++k) {
    sum += weight.data[row * width + k] * x.data[(b * x.shape[1] + t) * width + k];
  }
  return sum;
}

// The rows of W that belong to group g, `width` of them, times x[b,t].
inline Vector product_of_group(const Tensor& weight,
                               std::int64_t width,
                               const Tensor& x,
                               std::int64_t b,
                               std::int64_t g,
                               std::int64_t t) {
  Vector result;
  for (std::int64_t i = 0; i < width; ++i) {
    result.push_back(product(weight, g * width + i, x, b, t));
  }
  return result;
}

inline Vector naive_key(const AttentionConfig& c,
                        const Weights& weights,
                        const std::string& branch,
                        const Tensor& x,
                        std::int64_t b,
                        std::int64_t g,
                        std::int64_t t) {
  Vector key = product_of_group(weights.at("W_K_" + branch + ".weight"), c.d_k, x, b, g, t);
  for (std::int64_t i = 0; i < c.d_k; i += 2) {
    const double angle =
        static_cast<double>(t) / c.rope_scale *
        std::pow(c.rope_base, -static_cast<double>(i) / static_cast<double>(c.d_k));
    const double even = key[i];
    key[i] = even * std::cos(angle) - key[i + 1] * std::sin(angle);
    key[i + 1] = even * std::sin(angle) + key[i + 1] * std::cos(angle);
  }
  return key;
}

inline Vector naive_value(const AttentionConfig& c,
                          const Weights& weights,
                          const std::string& branch,
                          const Tensor& x,
                          std::int64_t b,
                          std::int64_t g,
                          std::int64_t t) {
  return product_of_group(weights.at("W_V_" + branch + ".weight"), c.d_v, x, b, g, t);
}

// Softmax of q.k / sqrt(d_k) over the keys given, times their values; zeros where there are none.
inline Vector naive_attend(const Vector& q,
                           const std::vector<Vector>& keys,
                           const std::vector<Vector>& values,
                           std::int64_t d_v) {
  double sum = 0;
  Vector out(static_cast<std::size_t>(d_v), 0.0);
  for (std::size_t u = 0; u < keys.size(); ++u) {
    double logit = 0;
    for (std::size_t c = 0; c < q.size(); ++c) {
      logit += q[c] * keys[u][c];
    }
    const double p = std::exp(logit / std::sqrt(static_cast<double>(q.size())));
    sum += p;
    for (std::size_t c = 0; c < out.size(); ++c) {
      out[c] += p * values[u][c];
    }
  }
  for (double& value : out) {
    value /= sum > 0 ? sum : 1;
  }
  return out;
}

// seen(b, g, t, u): may the query at t of group g see key u of the branch?
using Seen = std::function<bool(std::int64_t b, std::int64_t g, std::int64_t t, std::int64_t u)>;

// One row's query of one head: element (b,g,i,r) of q [B,G,h,R,D].
inline Vector query_of(const Tensor& q, std::int64_t head, std::int64_t row) {
  const std::int64_t width = q.shape[4];
  const auto begin = q.data.begin() + (head * q.shape[3] + row) * width;
  return {begin, begin + width};
}

// o_branch [B,G,h,R,V] of all rows, for the queries of `result` and the keys of all tokens, or the
// compressed ones of `result`.
inline Tensor naive_branch(const AttentionConfig& c,
                           const Weights& weights,
                           const Tensor& x,
                           const AttentionResult& result,
                           const std::string& branch,
                           const Seen& seen) {
  const Shape& shape = result.q.shape;
  Tensor out = zeros({shape[0], shape[1], shape[2], shape[3], c.d_v});
  auto to = out.data.begin();
  const bool compressed = branch == "cmp";
  const std::int64_t count = compressed ? result.k_cmp.shape[2] : x.shape[1];
  for (std::int64_t head = 0; head < shape[0] * shape[1] * shape[2]; ++head) {
    const std::int64_t group = head / shape[2];
    const std::int64_t b = group / shape[1];
    const std::int64_t g = group % shape[1];
    std::vector<Vector> all_keys;
    std::vector<Vector> all_values;
    for (std::int64_t u = 0; u < count; ++u) {
      const auto k = result.k_cmp.data.begin() + (group * count + u) * c.d_k;
      const auto v = result.v_cmp.data.begin() + (group * count + u) * c.d_v;
      all_keys.push_back(compressed ? Vector(k, k + c.d_k)
                                    : naive_key(c, weights, branch, x, b, g, u));
      all_values.push_back(compressed ? Vector(v, v + c.d_v)
                                      : naive_value(c, weights, branch, x, b, g, u));
    }
    for (std::int64_t row = 0; row < shape[3]; ++row) {
      std::vector<Vector> keys;
      std::vector<Vector> values;
      for (std::int64_t u = 0; u < count; ++u) {
        if (seen(b, g, result.rows[row], u)) {
          keys.push_back(all_keys[u]);
          values.push_back(all_values[u]);
        }
      }
      const Vector o = naive_attend(query_of(result.q, head, row), keys, values, c.d_v);
      to = std::copy(o.begin(), o.end(), to);
    }
  }
  return out;
}

// Is block of token u among the blocks taken by (b,g,row)?
inline bool taken(const IntTensor& blocks,
                  std::int64_t group,
                  std::int64_t row,
                  std::int64_t block) {
  const std::int64_t n = blocks.shape[3];
  const auto begin = blocks.data.begin() + (group * blocks.shape[2] + row) * n;
  return std::find(begin, begin + n, block) != begin + n;
}

inline double largest_difference(const Tensor& a, const Tensor& b) {
  double worst = a.shape == b.shape ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < a.data.size() && i < b.data.size(); ++i) {
    const double difference = std::abs(a.data[i] - b.data[i]);
    worst = difference <= worst ? worst : difference;  // a NaN stays
  }
  return worst;
}

}  // namespace oracles::testing
