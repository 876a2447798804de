// Layers to try wrong laws on, and the plain pieces that restatements of the laws are made of:
// loops over single numbers, no code of the oracle's but its right results.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "oracles/laws/stage_laws.h"
#include "tests/oracles/naive.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {

using Index = std::int64_t;

struct Case {
  RandomLayer layer;
  AttentionOptions options;
  AttentionResult right;
  StageLawOutputs outputs;

  Case(const RandomLayer& from, const AttentionOptions& chosen)
      : layer(from),
        options(chosen),
        right(attention(layer.config, layer.weights, layer.x, options)),
        outputs(layer.config, layer.weights, layer.x, options) {}

  [[nodiscard]] const AttentionConfig& c() const { return layer.config; }
  [[nodiscard]] const Tensor& w(const std::string& name) const { return layer.weights.at(name); }
  [[nodiscard]] Index batch() const { return layer.x.shape[0]; }
  [[nodiscard]] Index length() const { return layer.length(); }
  [[nodiscard]] Index rows() const { return static_cast<Index>(right.rows.size()); }
  [[nodiscard]] Index heads() const { return c().heads_per_group(); }
  [[nodiscard]] Index tokens() const { return right.k_cmp.shape[2]; }
  [[nodiscard]] Index blocks() const { return c().block_count(length()); }
};

inline RandomLayer case_layer(std::uint64_t seed,
                              const std::function<void(AttentionConfig&)>& change) {
  Random random(seed);
  AttentionConfig config = dropping_layer(0).config;
  change(config);
  return {random, config, 2, 37};
}

// All variants, widths equal and different, some rows and all, a rotation of another scale, ties.
inline const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = [] {
    std::vector<Case> all;
    all.emplace_back(case_layer(1, [](auto&) {}), AttentionOptions{});
    all.emplace_back(case_layer(2,
                                [](auto& c) {
                                  c.phi = Phi::conv;
                                  c.gate = Gate::head_sigmoid;
                                  c.eq9 = Eq9::overlap;
                                  c.d_v = 6;
                                  c.rope_scale = 2;
                                  c.n_sel = 5;
                                }),
                     AttentionOptions{});
    all.emplace_back(case_layer(3,
                                [](auto& c) {
                                  c.phi = Phi::mlp;
                                  c.gate_temp = 0.5;
                                  c.d_v = 6;
                                  c.rope_scale = 3;
                                  c.l = 8;
                                }),
                     AttentionOptions{.rows = {0, 3, 7, 14, 22, 29, 36}});
    RandomLayer ties = case_layer(4, [](auto& c) { c.n_sel = 5; });
    ties.weights["W_K_cmp.weight"] = zeros(ties.weights["W_K_cmp.weight"].shape);
    all.emplace_back(ties, AttentionOptions{});
    return all;
  }();
  return kCases;
}

// Tensor whose last dimension is `of` of all the indices before it.
inline Tensor built(const Shape& shape,
                    const std::function<Vector(const std::vector<Index>&)>& of) {
  Tensor tensor = zeros(shape);
  const Index width = shape.back();
  for (Index row = 0; row * width < static_cast<Index>(tensor.data.size()); ++row) {
    std::vector<Index> at(shape.size() - 1);
    Index rest = row;
    for (std::size_t k = at.size(); k-- > 0; rest /= shape[k]) {
      at[k] = rest % shape[k];
    }
    const Vector value = of(at);
    std::copy_n(value.begin(), width, tensor.data.begin() + row * width);
  }
  return tensor;
}

// The `width` numbers of a row-major tensor that begin at number `row` * width.
inline Vector row_of(const Tensor& tensor, Index row) {
  const Index width = tensor.shape.back();
  return {tensor.data.begin() + row * width, tensor.data.begin() + (row + 1) * width};
}

// Rows [first, first + width) of W times x[b,t].
inline Vector projected(
    const Case& s, const std::string& weight, Index first, Index width, Index b, Index t) {
  Vector z;
  for (Index i = 0; i < width; ++i) {
    z.push_back(product(s.w(weight), first + i, s.layer.x, b, t));
  }
  return z;
}

// Pair c, numbers first(c) and second(c), turned by angle(c).
inline Vector turned(
    Vector z,
    const std::function<double(Index)>& angle,
    const std::function<std::pair<Index, Index>(Index)>& pair = [](Index c) {
      return std::pair(2 * c, 2 * c + 1);
    }) {
  const Vector from = z;
  for (Index c = 0; 2 * c < static_cast<Index>(z.size()); ++c) {
    const auto [i, j] = pair(c);
    z[i] = from[i] * std::cos(angle(c)) - from[j] * std::sin(angle(c));
    z[j] = from[i] * std::sin(angle(c)) + from[j] * std::cos(angle(c));
  }
  return z;
}

inline double frequency(double base, Index c, Index width) {
  return std::pow(base, -2.0 * static_cast<double>(c) / static_cast<double>(width));
}

inline std::function<double(Index)> usual_angle(const Case& s, Index t) {
  return [&s, t](Index c) {
    return static_cast<double>(t) / s.c().rope_scale * frequency(s.c().rope_base, c, s.c().d_k);
  };
}

inline double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

// What a law means, said a second time in the plainest way.
using Restatement = std::function<Tensor(const Case&, Stage)>;
using Restatements = std::map<std::string, Restatement, std::less<>>;

inline bool lists(const std::vector<std::string_view>& laws, std::string_view law) {
  return std::find(laws.begin(), laws.end(), law) != laws.end();
}

// One law of one stage in every case that it makes sense for: as restated, and not always what the
// right law gives.
inline void expect_restated(std::string_view law, Stage stage, const Restatement& restated) {
  int tried = 0;
  double change = 0;
  for (const Case& s : cases()) {
    if (!lists(s.outputs.laws(stage), law)) {
      continue;
    }
    ++tried;
    const Tensor found = s.outputs.output(law, stage);
    double size = 1;
    for (const double value : found.data) {
      size = std::max(size, std::abs(value));
    }
    EXPECT_LT(largest_difference(found, restated(s, stage)), 1e-12 * size)
        << law << " of " << stage_name(stage) << " in case " << &s - cases().data();
    change = std::max(change, largest_difference(found, s.outputs.right(stage)));
  }
  EXPECT_GT(tried, 0) << law << " of " << stage_name(stage);
  EXPECT_GT(change, 1e-3) << law << " of " << stage_name(stage);
}

// All laws of these stages, each of which must have its restatement.
inline void expect_all_restated(const std::vector<Stage>& stages, const Restatements& restated) {
  std::set<std::string_view> used;
  for (const StageLaw& law : stage_laws()) {
    for (const Stage stage : law.stages) {
      if (std::find(stages.begin(), stages.end(), stage) == stages.end()) {
        continue;
      }
      const auto found = restated.find(law.name);
      ASSERT_TRUE(found != restated.end()) << law.name << " of " << stage_name(stage);
      used.insert(law.name);
      expect_restated(law.name, stage, found->second);
    }
  }
  EXPECT_EQ(used.size(), restated.size());
}

}  // namespace oracles::testing
