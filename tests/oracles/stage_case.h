// Layers to try wrong laws on, and the plain pieces that restatements of the laws are made of:
// loops over single numbers, no code of the oracle's but its right results.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
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

// One layer with its stages, right and wrong. Refers to its own members: neither copied nor moved.
struct Case {
  RandomLayer layer;
  AttentionOptions options;
  AttentionResult right;
  Stages stages;

  Case(const RandomLayer& from, const AttentionOptions& chosen)
      : layer(from),
        options(chosen),
        right(attention(layer.config, layer.weights, layer.x, options)),
        stages(layer.config, layer.weights, layer.x, options) {}

  [[nodiscard]] std::vector<std::string_view> laws(Stage stage) const {
    std::vector<std::string_view> names;
    for (const StageLaw* law : stage_laws(stage, stages)) {
      names.push_back(law->law.name);
    }
    return names;
  }
  [[nodiscard]] Tensor output(std::string_view law, Stage stage) const {
    return output_under(law, stage, stages);
  }

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

// All variants, widths equal and different, some rows and all, a rotation of another scale and
// base, ties, eight groups of one head, many short blocks of scores that are nearly equal or far
// apart.
inline const std::deque<Case>& cases() {
  static const std::deque<Case> kCases = [] {
    std::deque<Case> all;
    all.emplace_back(case_layer(1, [](auto&) {}), AttentionOptions{});
    all.emplace_back(case_layer(2,
                                [](auto& c) {
                                  c.phi = Phi::conv;
                                  c.gate = Gate::head_sigmoid;
                                  c.eq9 = Eq9::overlap;
                                  c.d_v = 6;
                                  c.rope_scale = 2;
                                  c.rope_base = 50;
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
    all.emplace_back(case_layer(5,
                                [](auto& c) {
                                  c.n_heads = c.n_kv_groups = 8;
                                  c.d = 1;
                                  c.l_sel = 2;
                                }),
                     AttentionOptions{.rows = {2, 9, 16, 23, 30}});
    for (const double sharpness : {0.03, 2.0}) {
      RandomLayer layer = case_layer(6, [](auto& c) {
        c.n_heads = 4;
        c.d_k = 10;
        c.l = 6;
        c.l_sel = 2;
      });
      for (double& value : layer.weights["W_K_cmp.weight"].data) {
        value *= sharpness;
      }
      all.emplace_back(layer, AttentionOptions{});
    }
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

inline Vector unrotated_query(const Case& s, Index b, Index hq, Index row) {
  return projected(s, "W_Q.weight", hq * s.c().d_k, s.c().d_k, b, s.right.rows[row]);
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

// Nearest number of 8 significant bits.
inline double in_bfloat16(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
}

// Head `head` of `heads` of one token, not rotated, as a wrong law rotates it.
using Turning =
    std::function<Vector(const Case&, const Vector& z, Index heads, Index head, Index t)>;

inline Turning turned_by(
    const std::function<double(const Case&, Index heads, Index head, Index t, Index c)>& angle) {
  return [angle](const Case& s, const Vector& z, Index heads, Index head, Index t) {
    return turned(z, [&](Index c) { return angle(s, heads, head, t, c); });
  };
}

inline Turning turned_with_base(const std::function<double(const Case&)>& base, double exponent) {
  return turned_by([=](auto& s, Index, Index, Index t, Index c) {
    return static_cast<double>(t) / s.c().rope_scale *
           std::pow(base(s), -exponent * static_cast<double>(c) / static_cast<double>(s.c().d_k));
  });
}

// Number e of the vector meets its partner in `pair` and turns by the angle of pair of_table(e).
inline Vector turned_one_by_one(const Case& s,
                                const Vector& z,
                                Index t,
                                const std::function<std::pair<Index, Index>(Index)>& pair,
                                const std::function<Index(Index)>& of_table) {
  Vector out = z;
  for (Index c = 0; 2 * c < static_cast<Index>(z.size()); ++c) {
    const auto [i, j] = pair(c);
    const double a = usual_angle(s, t)(of_table(i));
    const double b = usual_angle(s, t)(of_table(j));
    out[i] = z[i] * std::cos(a) - z[j] * std::sin(a);
    out[j] = z[j] * std::cos(b) + z[i] * std::sin(b);
  }
  return out;
}

inline std::map<std::string, Turning> wrong_turns() {
  const auto neighbours = [](Index c) { return std::pair(2 * c, 2 * c + 1); };
  const auto own_base = [](const Case& s) { return s.c().rope_base; };
  return {
      {"rope_missing", turned_by([](const auto&...) { return 0.0; })},
      {"rope_twice", turned_by([](auto& s, Index, Index, Index t, Index c) {
         return usual_angle(s, t)(c) + usual_angle(s, t)(c);
       })},
      {"rope_backward",
       turned_by([](auto& s, Index, Index, Index t, Index c) { return usual_angle(s, -t)(c); })},
      {"rope_flat_heads", turned_by([](auto& s, Index heads, Index head, Index t, Index c) {
         return static_cast<double>(t) / s.c().rope_scale *
                frequency(s.c().rope_base, head * s.c().d_k / 2 + c, heads * s.c().d_k);
       })},
      {"rope_halves",
       [](const Case& s, const Vector& z, Index, Index, Index t) {
         return turned(z, usual_angle(s, t), [&](Index c) {
           return std::pair(c, c + static_cast<Index>(z.size()) / 2);
         });
       }},
      {"rope_halves_wrong_table",
       [](const Case& s, const Vector& z, Index, Index, Index t) {
         const auto half = static_cast<Index>(z.size()) / 2;
         return turned_one_by_one(
             s,
             z,
             t,
             [half](Index c) { return std::pair(c, c + half); },
             [](Index e) { return e / 2; });
       }},
      {"rope_wrong_table",
       [=](const Case& s, const Vector& z, Index, Index, Index t) {
         const auto half = static_cast<Index>(z.size()) / 2;
         return turned_one_by_one(s, z, t, neighbours, [half](Index e) { return e % half; });
       }},
      {"rope_in_bfloat16",
       [](const Case& s, const Vector& z, Index, Index, Index t) {
         Vector out = z;
         for (std::size_t i = 0; i < z.size(); i += 2) {
           const double a = usual_angle(s, t)(static_cast<Index>(i) / 2);
           const double cosine = in_bfloat16(std::cos(a));
           const double sine = in_bfloat16(std::sin(a));
           out[i] = z[i] * cosine - z[i + 1] * sine;
           out[i + 1] = z[i] * sine + z[i + 1] * cosine;
         }
         return out;
       }},
      {"rope_scale_ignored", turned_by([](auto& s, Index, Index, Index t, Index c) {
         return static_cast<double>(t) * frequency(s.c().rope_base, c, s.c().d_k);
       })},
      {"rope_scale_multiplied", turned_by([](auto& s, Index, Index, Index t, Index c) {
         return static_cast<double>(t) * s.c().rope_scale *
                frequency(s.c().rope_base, c, s.c().d_k);
       })},
      {"rope_from_one",
       turned_by([](auto& s, Index, Index, Index t, Index c) { return usual_angle(s, t + 1)(c); })},
      {"rope_half_exponent", turned_with_base(own_base, 1)},
      {"rope_double_exponent", turned_with_base(own_base, 4)},
      {"rope_base_10000", turned_with_base([](auto&) { return 10000.0; }, 2)},
      {"rope_base_500000", turned_with_base([](auto&) { return 500000.0; }, 2)}};
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

// Number (lane, row, i) of a sequence's right tensor at the place that `from` says, which knows the
// numbers of lanes, rows and of one vector, and the place that is asked for.
using PlaceOf = std::function<Index(Index lanes, Index rows, Index width, Index place)>;
inline Restatement rearranged(const PlaceOf& from) {
  return [from](const Case& s, Stage stage) {
    const Tensor right = s.stages.right(stage);
    const Index width = right.shape.back();
    const Index rows = right.shape[right.shape.size() - 2];
    const Index size = static_cast<Index>(right.data.size()) / right.shape[0];
    Tensor out = right;
    for (Index i = 0; i < static_cast<Index>(right.data.size()); ++i) {
      const Index place = from(size / rows / width, rows, width, i % size);
      out.data[i] = right.data[i / size * size + place];
    }
    return out;
  };
}

// What lies at [row][lane][i] in memory of a tensor [lane][row][i] that was laid out so, read at
// [lane][row][i]; and the other way round.
inline Restatements layouts() {
  return {{"rows_as_heads", rearranged([](Index lanes, Index rows, Index width, Index place) {
             const Index row = place / width / lanes;
             const Index lane = place / width % lanes;
             return (lane * rows + row) * width + place % width;
           })},
          {"heads_as_rows", rearranged([](Index lanes, Index rows, Index width, Index place) {
             const Index lane = place / width / rows;
             const Index row = place / width % rows;
             return (row * lanes + lane) * width + place % width;
           })}};
}

inline bool lists(const std::vector<std::string_view>& laws, std::string_view law) {
  return std::find(laws.begin(), laws.end(), law) != laws.end();
}

// One law of one stage in every case that it makes sense for: as restated, and not always what the
// right law gives.
inline void expect_restated(std::string_view law, Stage stage, const Restatement& restated) {
  // A sentinel shows in rows without keys, which these branches do not have, and beside very low
  // logits.
  const bool shows = law != "finite_sentinel" || (stage != Stage::o_sel && stage != Stage::o_win);
  int tried = 0;
  double change = 0;
  for (const Case& s : cases()) {
    if (!lists(s.laws(stage), law)) {
      continue;
    }
    ++tried;
    const Tensor found = s.output(law, stage);
    double size = 1;
    for (const double value : found.data) {
      size = std::max(size, std::abs(value));
    }
    EXPECT_LT(largest_difference(found, restated(s, stage)), 1e-12 * size)
        << law << " of " << stage_name(stage) << " with " << s.c().n_kv_groups << " groups, d_v "
        << s.c().d_v << ", " << s.rows() << " rows";
    change = std::max(change, largest_difference(found, s.stages.right(stage)));
  }
  EXPECT_GT(tried, 0) << law << " of " << stage_name(stage);
  EXPECT_EQ(change > 1e-3, shows) << law << " of " << stage_name(stage);
}

// All laws of these stages, each of which must have its restatement.
inline void expect_all_restated(const std::vector<Stage>& stages, const Restatements& restated) {
  std::set<std::string_view> used;
  for (const StageLaw& law : stage_laws()) {
    for (const Stage stage : law.stages) {
      // The learned gate is restated where a constant is asked for.
      if (std::find(stages.begin(), stages.end(), stage) == stages.end() ||
          law.law.name == "learned") {
        continue;
      }
      const auto found = restated.find(law.law.name);
      ASSERT_TRUE(found != restated.end()) << law.law.name << " of " << stage_name(stage);
      used.insert(law.law.name);
      expect_restated(law.law.name, stage, found->second);
    }
  }
  EXPECT_EQ(used.size(), restated.size());
}

}  // namespace oracles::testing
