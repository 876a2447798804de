// Wrong laws of the branch outputs, the gate and y against the laws said in plain words.
#include "oracles/laws/match.h"
#include "oracles/laws/offset_laws.h"
#include "oracles/laws/tiled_laws.h"
#include "tests/oracles/stage_case.h"

namespace oracles::testing {
namespace {

std::string branch_named(Stage stage) {
  return stage == Stage::o_cmp ? "cmp" : stage == Stage::o_sel ? "sel" : "win";
}
Index count_of(const Case& s, Stage stage) {
  return stage == Stage::o_cmp ? s.tokens() : s.length();
}

bool sees(const Case& s, Stage stage, Index b, Index g, Index row, Index u) {
  const Index t = s.right.rows[row];
  if (stage == Stage::o_cmp) {
    return u * s.c().d + s.c().l <= t + 1;
  }
  if (stage == Stage::o_win) {
    return t - s.c().w < u && u <= t;
  }
  return u <= t && taken(s.right.blocks, b * s.c().n_kv_groups + g, row, u / s.c().l_sel);
}

Vector key(const Case& s, Stage stage, Index b, Index g, Index u) {
  return stage == Stage::o_cmp
             ? row_of(s.right.k_cmp, (b * s.c().n_kv_groups + g) * s.tokens() + u)
             : naive_key(s.c(), s.layer.weights, branch_named(stage), s.layer.x, b, g, u);
}
Vector unrotated_key(const Case& s, Stage stage, Index b, Index g, Index u) {
  return projected(s, "W_K_" + branch_named(stage) + ".weight", g * s.c().d_k, s.c().d_k, b, u);
}
Vector value(const Case& s, Stage stage, Index b, Index g, Index u) {
  return stage == Stage::o_cmp
             ? row_of(s.right.v_cmp, (b * s.c().n_kv_groups + g) * s.tokens() + u)
             : naive_value(s.c(), s.layer.weights, branch_named(stage), s.layer.x, b, g, u);
}
Vector query(const Case& s, Index b, Index hq, Index row) {
  return row_of(s.right.q, (b * s.c().n_heads + hq) * s.rows() + row);
}
Index own_group(const Case&, Index g, Index) {
  return g;
}
Index next_group(const Case& s, Index g, Index) {
  return g + 1 == s.c().n_kv_groups ? 0 : g + 1;
}
Index interleaved(const Case& s, Index g, Index i) {
  return (g * s.heads() + i) % s.c().n_kv_groups;
}
double usual_root(const Case& s) {
  return std::sqrt(static_cast<double>(s.c().d_k));
}

// o_branch in the plainest way; right where nothing else is said.
struct Plain {
  double (*root)(const Case&) = usual_root;
  Vector (*query)(const Case&, Index b, Index hq, Index row) = testing::query;
  Vector (*key)(const Case&, Stage, Index b, Index g, Index u) = testing::key;
  std::function<Index(const Case&, Index g, Index i)> key_group = own_group;
  std::function<Index(const Case&, Index g, Index i)> value_group = own_group;
  Index value_shift = 0;
  // Does the query see the key? None: by the right law.
  std::function<bool(const Case&, Stage, Index b, Index g, Index row, Index u)> sees = nullptr;
  // Whose values.
  std::string values_of = {};
  std::string keys_of = {};
  // Does the softmax's sum hold keys that the query does not see?
  bool all_in_sum = false;
  // How often a key that it sees is attended to.
  double (*times)(const Case&, Index b, Index g, Index row, Index u) = nullptr;
};

Vector output_of_head(
    const Case& s, Stage stage, const Plain& p, Index b, Index g, Index i, Index row) {
  const Vector q = p.query(s, b, g * s.heads() + i, row);
  Vector out(static_cast<std::size_t>(s.c().d_v), 0.0);
  double sum = 0;
  for (Index u = 0; u < count_of(s, stage); ++u) {
    const bool seen = p.sees ? p.sees(s, stage, b, g, row, u) : sees(s, stage, b, g, row, u);
    if (!seen && !p.all_in_sum) {
      continue;
    }
    const Index key_group = p.key_group(s, g, i);
    const Vector k = p.keys_of.empty()
                         ? p.key(s, stage, b, key_group, u)
                         : naive_key(s.c(), s.layer.weights, p.keys_of, s.layer.x, b, key_group, u);
    double weight = std::exp(dot(q, k) / p.root(s));
    if (p.times != nullptr) {
      weight *= p.times(s, b, g, row, u);
    }
    sum += weight;
    const Index from = std::min(std::max<Index>(u + p.value_shift, 0), count_of(s, stage) - 1);
    const Index value_group = p.value_group(s, g, i);
    const Vector v =
        p.values_of.empty()
            ? value(s, stage, b, value_group, from)
            : naive_value(s.c(), s.layer.weights, p.values_of, s.layer.x, b, value_group, from);
    for (std::size_t c = 0; c < out.size(); ++c) {
      out[c] += seen ? weight * v[c] : 0;
    }
  }
  for (double& number : out) {
    number /= sum > 0 ? sum : 1;
  }
  return out;
}

Restatement with(const Plain& p) {
  return [p](const Case& s, Stage stage) {
    return built({s.batch(), s.c().n_kv_groups, s.heads(), s.rows(), s.c().d_v},
                 [&](const std::vector<Index>& at) {
                   return output_of_head(s, stage, p, at[0], at[1], at[2], at[3]);
                 });
  };
}

// Place p holds head p / G of group p mod G.
Tensor outputs_group_minor(const Case& s, Stage stage) {
  const Tensor right = s.stages.right(stage);
  return built(right.shape, [&](const std::vector<Index>& at) {
    const Index place = at[1] * s.heads() + at[2];
    const Index head = place % s.c().n_kv_groups * s.heads() + place / s.c().n_kv_groups;
    return row_of(right, (at[0] * s.c().n_heads + head) * s.rows() + at[3]);
  });
}

Restatements output_laws() {
  return {
      {"scale_missing", with({.root = [](const Case&) { return 1.0; }})},
      {"scale_twice", with({.root = [](const Case& s) { return static_cast<double>(s.c().d_k); }})},
      {"scale_of_values",
       with({.root = [](const Case& s) { return std::sqrt(static_cast<double>(s.c().d_v)); }})},
      {"normalised_over_all", with({.all_in_sum = true})},
      {"forced_twice",
       with({.times =
                 [](const Case& s, Index, Index, Index row, Index u) {
                   const Index block = u / s.c().l_sel;
                   const Index current = s.right.rows[row] / s.c().l_sel;
                   const bool initial = block < s.c().init_blocks;
                   const bool local = current - block < s.c().local_blocks;
                   return initial && local ? 2.0 : 1.0;
                 }})},
      {"current_twice",
       with({.times =
                 [](const Case& s, Index, Index, Index row, Index u) {
                   return s.right.rows[row] / s.c().l_sel == u / s.c().l_sel ? 2.0 : 1.0;
                 }})},
      {"next_groups_keys", with({.key_group = next_group, .value_group = next_group})},
      {"next_groups_values", with({.value_group = next_group})},
      {"heads_interleaved", with({.key_group = interleaved, .value_group = interleaved})},
      {"keys_interleaved", with({.key_group = interleaved})},
      {"values_interleaved", with({.value_group = interleaved})},
      {"queries_group_minor",
       with({.query =
                 [](const Case& s, Index b, Index hq, Index row) {
                   const Index of = hq % s.heads() * s.c().n_kv_groups + hq / s.heads();
                   return query(s, b, of, row);
                 }})},
      {"outputs_group_minor", outputs_group_minor},
      {"queries_unrotated", with({.query = unrotated_query})},
      {"keys_unrotated", with({.key = unrotated_key})},
      {"values_one_late", with({.value_shift = 1})},
      {"values_one_early", with({.value_shift = -1})}};
}

// By query position, of the compressed branch alone.
Plain seeing(const std::function<bool(const Case&, Index t, Index i)>& seen) {
  Plain plain;
  plain.sees = [seen](const Case& s, Stage, Index, Index, Index row, Index u) {
    return seen(s, s.right.rows[row], u);
  };
  return plain;
}

bool complete(const Case& s, Index t, Index i) {
  return i * s.c().d + s.c().l <= t + 1;
}

Restatements visibility_laws() {
  return {
      {"seen_one_late",
       with(seeing([](auto& s, Index t, Index i) { return complete(s, t - 1, i); }))},
      {"seen_one_early",
       with(seeing([](auto& s, Index t, Index i) { return complete(s, t + 1, i); }))},
      {"seen_when_begun", with(seeing([](auto& s, Index t, Index i) { return i * s.c().d <= t; }))},
      {"last_window_unseen",
       with(seeing([](auto& s, Index t, Index i) { return complete(s, t, i + 1); }))},
      {"first_window_unseen",
       with(seeing([](auto& s, Index t, Index i) { return i > 0 && complete(s, t, i); }))},
      {"next_window_seen",
       with(seeing([](auto& s, Index t, Index i) { return i == 0 || complete(s, t, i - 1); }))},
      {"first_row_zero", with(seeing([](auto& s, Index t, Index i) {
         return t != s.c().l - 1 && complete(s, t, i);
       }))}};
}

Restatements scale_laws() {
  const auto times = [](double (*factor)(const Case&)) {
    Plain plain;
    plain.root = factor;
    return with(plain);
  };
  return {
      {"scale_of_all_heads", times([](const Case& s) {
         return std::sqrt(static_cast<double>(s.c().n_heads * s.c().d_k));
       })},
      {"base_two", times([](const Case& s) { return usual_root(s) / std::log(2.0); })},
      {"base_two_factor_left", times([](const Case& s) { return usual_root(s) * std::log(2.0); })}};
}

Restatement of_branch(const std::string& keys, const std::string& values) {
  Plain plain;
  plain.keys_of = keys;
  plain.values_of = values;
  return with(plain);
}

Restatements branch_laws() {
  Restatements all{{"keys_and_values_of_win", of_branch("win", "win")},
                   {"keys_of_win", of_branch("win", "")},
                   {"values_of_win", of_branch("", "win")},
                   {"keys_and_values_of_sel", of_branch("sel", "sel")},
                   {"keys_of_sel", of_branch("sel", "")},
                   {"values_of_sel", of_branch("", "sel")}};
  for (Index by = 2; by < 8; ++by) {
    Plain plain;
    plain.key_group = plain.value_group = [by](const Case& s, Index g, Index) {
      return (g + by) % s.c().n_kv_groups;
    };
    all["groups_shifted_by_" + std::to_string(by)] = with(plain);
  }
  return all;
}

// Slots of a list that hold no block.
Index slots_left(const Case& s, Index b, Index g, Index row) {
  Index left = 0;
  for (Index slot = 0; slot < s.c().n_sel; ++slot) {
    const Index list = (b * s.c().n_kv_groups + g) * s.rows() + row;
    left += s.right.blocks.data[static_cast<std::size_t>(list * s.c().n_sel + slot)] < 0 ? 1 : 0;
  }
  return left;
}

// Each of these slots brings the first block's keys, or as many times the first key.
Restatements slot_laws() {
  Plain block;
  block.sees = [](const Case& s, Stage stage, Index b, Index g, Index row, Index u) {
    const bool first = u < s.c().l_sel && u <= s.right.rows[row];
    return sees(s, stage, b, g, row, u) || (first && slots_left(s, b, g, row) > 0);
  };
  block.times = [](const Case& s, Index b, Index g, Index row, Index u) {
    const Index once = sees(s, Stage::o_sel, b, g, row, u) ? 1 : 0;
    return static_cast<double>(once + (u < s.c().l_sel ? slots_left(s, b, g, row) : 0));
  };
  Plain key;
  key.sees = [](const Case& s, Stage stage, Index b, Index g, Index row, Index u) {
    return sees(s, stage, b, g, row, u) || (u == 0 && slots_left(s, b, g, row) > 0);
  };
  key.times = [](const Case& s, Index b, Index g, Index row, Index u) {
    const Index once = sees(s, Stage::o_sel, b, g, row, u) ? 1 : 0;
    const Index more = u == 0 ? s.c().l_sel * slots_left(s, b, g, row) : 0;
    return static_cast<double>(once + more);
  };
  return {{"empty_slots_block_zero", with(block)}, {"empty_slots_key_zero", with(key)}};
}

// Which keys a query sees, by the law's own words.
using Sees = std::function<bool(const Case&, Stage, Index b, Index g, Index row, Index u)>;

Restatements key_laws() {
  const auto seen = [](const Sees& sees_key) {
    Plain plain;
    plain.sees = sees_key;
    return with(plain);
  };
  const auto position = [](const Case& s, Index row) { return s.right.rows[row]; };
  const auto in_blocks = [](const Case& s, Index b, Index g, Index row, Index u) {
    return taken(s.right.blocks, b * s.c().n_kv_groups + g, row, u / s.c().l_sel);
  };
  return {{"top_left", seen([](auto& s, Stage stage, Index b, Index g, Index row, Index u) {
             bool first = sees(s, stage, b, g, row, u);
             for (Index earlier = 0; earlier < u; ++earlier) {
               first = first && !sees(s, stage, b, g, row, earlier);
             }
             return first;
           })},
          {"inverted", seen([](auto& s, Stage stage, Index b, Index g, Index row, Index u) {
             return !sees(s, stage, b, g, row, u);
           })},
          {"inverted_past", seen([=](auto& s, Stage stage, Index b, Index g, Index row, Index u) {
             return u <= position(s, row) && !sees(s, stage, b, g, row, u);
           })},
          {"inverted_slice", seen([=](auto& s, Stage, Index b, Index g, Index row, Index u) {
             return u > position(s, row) && in_blocks(s, b, g, row, u);
           })},
          {"no_mask", seen([=](auto& s, Stage stage, Index b, Index g, Index row, Index u) {
             return stage != Stage::o_sel || in_blocks(s, b, g, row, u);
           })},
          {"every_key", seen([](auto&, Stage, Index, Index, Index, Index) { return true; })},
          {"every_past_key", seen([=](auto& s, Stage, Index, Index, Index row, Index u) {
             return u <= position(s, row);
           })},
          {"one_longer", seen([=](auto& s, Stage, Index, Index, Index row, Index u) {
             return position(s, row) - s.c().w <= u && u <= position(s, row);
           })},
          {"one_shorter", seen([=](auto& s, Stage, Index, Index, Index row, Index u) {
             return position(s, row) - s.c().w + 1 < u && u <= position(s, row);
           })},
          {"one_back", seen([=](auto& s, Stage, Index, Index, Index row, Index u) {
             return position(s, row) - s.c().w <= u && u < position(s, row);
           })},
          {"drop_current", seen([=](auto& s, Stage stage, Index b, Index g, Index row, Index u) {
             const Index t = position(s, row);
             const bool incomplete = (t + 1) % s.c().l_sel != 0;
             return sees(s, stage, b, g, row, u) &&
                    !(incomplete && u / s.c().l_sel == t / s.c().l_sel);
           })},
          {"blocks_of_l", seen([=](auto& s, Stage, Index b, Index g, Index row, Index u) {
             return u <= position(s, row) &&
                    taken(s.right.blocks, b * s.c().n_kv_groups + g, row, u / s.c().l);
           })},
          {"blocks_half_as_long", seen([=](auto& s, Stage, Index b, Index g, Index row, Index u) {
             return u <= position(s, row) &&
                    taken(s.right.blocks, b * s.c().n_kv_groups + g, row, 2 * u / s.c().l_sel);
           })},
          {"blocks_twice_as_long", seen([=](auto& s, Stage, Index b, Index g, Index row, Index u) {
             return u <= position(s, row) &&
                    taken(s.right.blocks, b * s.c().n_kv_groups + g, row, u / 2 / s.c().l_sel);
           })}};
}

// exp(-10000 - logit) is zero beside any real logit: only rows without keys show the sentinel, as
// the mean of all values.
Tensor finite_sentinel(const Case& s, Stage stage) {
  Plain plain;
  plain.sees = [](const Case& c, Stage at, Index b, Index g, Index row, Index u) {
    return c.right.rows[row] + 1 < c.c().l && at == Stage::o_cmp ? true : sees(c, at, b, g, row, u);
  };
  const Tensor open = with(plain)(s, stage);
  plain.root = [](const Case&) { return std::numeric_limits<double>::infinity(); };
  const Tensor mean = with(plain)(s, stage);
  Tensor out = open;
  for (Index i = 0; i < static_cast<Index>(out.data.size()); ++i) {
    const Index row = i / s.c().d_v % s.rows();
    if (stage == Stage::o_cmp && s.right.rows[row] + 1 < s.c().l) {
      out.data[i] = mean.data[i];
    }
  }
  return out;
}

Restatements all_output_laws() {
  Restatements all = output_laws();
  all.merge(visibility_laws());
  all.merge(scale_laws());
  all.merge(branch_laws());
  all.merge(key_laws());
  all.merge(slot_laws());
  all.merge(layouts());
  return all;
}

constexpr Stage kOutputs[] = {Stage::o_cmp, Stage::o_sel, Stage::o_win};

TEST(StageOutputs, EveryLawIsWhatItSays) {
  Restatements all = all_output_laws();
  all["finite_sentinel"] = finite_sentinel;
  expect_all_restated({kOutputs[0], kOutputs[1], kOutputs[2]}, all);
}

TEST(StageOutputs, TheRestatementWithoutALawIsTheRightOne) {
  for (const Case& s : cases()) {
    for (const Stage stage : kOutputs) {
      EXPECT_LT(largest_difference(with({})(s, stage), s.stages.right(stage)), 1e-12);
    }
  }
}

// The selected branch follows replayed blocks, under laws too.
TEST(StageOutputs, FollowReplayedBlocks) {
  const RandomLayer& layer = cases()[0].layer;
  AttentionOptions options;
  options.replay = cases()[0].right.blocks;
  for (std::size_t i = 0; i < options.replay->data.size(); ++i) {
    options.replay->data[i] = i % 4 == 0 ? 0 : -1;
  }
  Case s(layer, options);
  s.right.blocks = *options.replay;
  EXPECT_LT(largest_difference(s.output("scale_missing", Stage::o_sel),
                               output_laws().at("scale_missing")(s, Stage::o_sel)),
            1e-12);
  EXPECT_EQ(s.stages.right(Stage::blocks).data, cases()[0].stages.right(Stage::blocks).data);
}

// Lists of the query's own block alone.
TEST(StageOutputs, AnEmptySlotBringsABlockThatIsNotListed) {
  const Case& first = cases()[0];
  AttentionOptions options;
  options.replay = first.right.blocks;
  for (std::size_t i = 0; i < options.replay->data.size(); ++i) {
    const auto slot = static_cast<Index>(i);
    const Index t = first.right.rows[slot / first.c().n_sel % first.rows()];
    options.replay->data[i] = slot % first.c().n_sel == 0 ? t / first.c().l_sel : -1;
  }
  Case s(first.layer, options);
  s.right.blocks = *options.replay;
  for (const auto& [law, restated] : slot_laws()) {
    EXPECT_LT(largest_difference(s.output(law, Stage::o_sel), restated(s, Stage::o_sel)), 1e-12);
  }
}

// With logits around -12000 the sentinel beats every key that is allowed.
TEST(StageOutputs, AFiniteSentinelWinsOverVeryLowLogits) {
  Random random(4);
  AttentionConfig config = dropping_layer(0).config;
  config.rope_scale = 1e30;
  RandomLayer layer(random, config, 1, 20);
  for (double& value : layer.x.data) {
    value = 100 + value;
  }
  for (const char* name : {"W_Q.weight", "W_K_win.weight"}) {
    for (double& value : layer.weights[name].data) {
      value = std::string(name) == "W_Q.weight" ? 0.1 : -0.1;
    }
  }
  const Case s(layer, {});
  // Of the masked keys all have the same logit, so their plain mean.
  double mean = 0;
  for (Index u = 1; u < 20; ++u) {
    mean += naive_value(config, layer.weights, "win", layer.x, 0, 0, u)[0] / 19;
  }
  EXPECT_NEAR(s.output("finite_sentinel", Stage::o_win).data[0], mean, 1e-10);
}

double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

bool shared(const Case& s) {
  return s.c().gate == Gate::group_softmax;
}

// The gate in the plainest way; right where nothing else is said.
struct PlainGate {
  double (*temperature)(const Case&) = [](const Case& s) { return s.c().gate_temp; };
  double bias = 1;
  bool other_function = false;
  // The weight of head i in the mean.
  double (*share)(const Case&, Index i) = [](const Case& s, Index) {
    return 1 / static_cast<double>(s.heads());
  };
  Index (*group)(const Case&, Index g, Index i) = own_group;
  Vector (*query)(const Case&, Index b, Index hq, Index row) = testing::query;
  // Row of the projection for number k of head hq.
  Index (*row)(const Case&, Index hq, Index k) = [](const Case&, Index hq, Index k) {
    return 3 * hq + k;
  };
};

Vector mean_query(const Case& s, const PlainGate& p, Index b, Index g, Index row) {
  Vector mean(static_cast<std::size_t>(s.c().d_k), 0.0);
  for (Index i = 0; i < s.heads(); ++i) {
    const Vector q = p.query(s, b, p.group(s, g, i) * s.heads() + i, row);
    for (std::size_t c = 0; c < mean.size(); ++c) {
      mean[c] += p.share(s, i) * q[c];
    }
  }
  return mean;
}

// Before softmax or sigmoid, over the temperature.
Vector gate_logits(const Case& s, const PlainGate& p, Index b, Index g, Index head, Index row) {
  Vector z(3, 0.0);
  if (!shared(s)) {
    for (Index k = 0; k < 3; ++k) {
      z[k] = product(s.w("gate.proj.weight"),
                     p.row(s, g * s.heads() + head, k),
                     s.layer.x,
                     b,
                     s.right.rows[row]);
    }
    return z;
  }
  const Vector mean = mean_query(s, p, b, g, row);
  const Index hidden = s.w("gate.fc1.bias").shape[0];
  for (Index k = 0; k < 3; ++k) {
    z[k] = p.bias * s.w("gate.fc2.bias").data[k];
    for (Index u = 0; u < hidden; ++u) {
      const double a =
          dot(row_of(s.w("gate.fc1.weight"), u), mean) + p.bias * s.w("gate.fc1.bias").data[u];
      z[k] += s.w("gate.fc2.weight").data[k * hidden + u] * a * sigmoid(a);
    }
    z[k] /= p.temperature(s);
  }
  return z;
}

Restatement gate_with(const PlainGate& p) {
  return [p](const Case& s, Stage) {
    return built(s.right.gate.shape, [&](const std::vector<Index>& at) {
      Vector z = gate_logits(s, p, at[0], at[1], shared(s) ? 0 : at[2], at.back());
      const double sum = std::exp(z[0]) + std::exp(z[1]) + std::exp(z[2]);
      for (double& number : z) {
        number = shared(s) != p.other_function ? std::exp(number) / sum : sigmoid(number);
      }
      return z;
    });
  };
}

Restatement gate_in_order(std::size_t cmp, std::size_t sel, std::size_t win) {
  return [=](const Case& s, Stage stage) {
    const Tensor right = gate_with({})(s, stage);
    Tensor other = right;
    for (std::size_t i = 0; i < right.data.size(); i += 3) {
      other.data[i] = right.data[i + cmp];
      other.data[i + 1] = right.data[i + sel];
      other.data[i + 2] = right.data[i + win];
    }
    return other;
  };
}

Restatement gate_of(double number) {
  return [number](const Case& s, Stage) { return filled(s.right.gate.shape, number); };
}

// Of [B,G,R,3]: each number over the sum along another dimension, 1 the groups and 2 the rows.
Tensor softmax_along(const Case& s, std::size_t dimension) {
  return built(s.right.gate.shape, [&](const std::vector<Index>& at) {
    Vector out(3, 0.0);
    for (Index other = 0; other < s.right.gate.shape[dimension]; ++other) {
      std::vector<Index> there = at;
      there[dimension] = other;
      const Vector z = gate_logits(s, {}, there[0], there[1], 0, there[2]);
      const Vector own = gate_logits(s, {}, at[0], at[1], 0, at[2]);
      for (std::size_t k = 0; k < 3; ++k) {
        out[k] += std::exp(z[k] - own[k]);
      }
    }
    for (double& number : out) {
      number = 1 / number;
    }
    return out;
  });
}
Tensor softmax_over_groups(const Case& s, Stage) {
  return softmax_along(s, 1);
}
Tensor softmax_over_rows(const Case& s, Stage) {
  return softmax_along(s, 2);
}

Restatements gate_laws() {
  Restatements all = layouts();
  all.merge(Restatements{
      {"cmp_sel_exchanged", gate_in_order(1, 0, 2)},
      {"cmp_win_exchanged", gate_in_order(2, 1, 0)},
      {"sel_win_exchanged", gate_in_order(0, 2, 1)},
      {"order_sel_win_cmp", gate_in_order(1, 2, 0)},
      {"order_win_cmp_sel", gate_in_order(2, 0, 1)},
      {"softmax_over_groups", softmax_over_groups},
      {"softmax_over_rows", softmax_over_rows},
      {"equal_shares", gate_of(1.0 / 3)},
      {"all_open", gate_of(1)},
      {"other_function", gate_with({.other_function = true})},
      {"branch_major",
       gate_with({.row = [](const Case& s, Index hq, Index k) { return k * s.c().n_heads + hq; }})},
      {"heads_group_minor",
       gate_with({.row =
                      [](const Case& s, Index hq, Index k) {
                        return 3 * (hq % s.heads() * s.c().n_kv_groups + hq / s.heads()) + k;
                      }})},
      {"queries_unrotated", gate_with({.query = unrotated_query})},
      {"temperature_ignored", gate_with({.temperature = [](const Case&) { return 1.0; }})},
      {"temperature_multiplied",
       gate_with({.temperature = [](const Case& s) { return 1 / s.c().gate_temp; }})},
      {"biases_missing", gate_with({.bias = 0})},
      {"first_head_only",
       gate_with({.share = [](const Case&, Index i) { return i == 0 ? 1.0 : 0.0; }})},
      {"heads_summed", gate_with({.share = [](const Case&, Index) { return 1.0; }})},
      {"next_group", gate_with({.group = next_group})}});
  return all;
}

TEST(StageGate, EveryLawIsWhatItSays) {
  expect_all_restated({Stage::gate}, gate_laws());
}

TEST(StageGate, TheRestatementWithoutALawIsTheRightOne) {
  for (const Case& s : cases()) {
    EXPECT_LT(largest_difference(gate_with({})(s, Stage::gate), s.right.gate), 1e-13);
  }
}

// y in the plainest way: number i of head hq, times the column of out.weight that it belongs to.
struct PlainMix {
  std::vector<double> shares{1, 1, 1};
  bool gated = true;
  // Whose gate each branch gets.
  std::vector<std::size_t> gates{0, 1, 2};
  // Where the branch outputs are read, and where the gates belong, by (head, row, number).
  std::function<std::vector<Index>(const Case&, const std::vector<Index>& place)> read =
      [](const Case&, const std::vector<Index>& place) { return place; };
  // Which number of row r, as (head, row, number), stands at column `column` of the output's input.
  std::function<std::vector<Index>(const Case&, Index row, Index column)> at =
      [](const Case& s, Index row, Index column) {
        return std::vector<Index>{column / s.c().d_v, row, column % s.c().d_v};
      };
};

double mixed_number(const Case& s, const PlainMix& p, Index b, Index hq, Index row, Index number) {
  const std::vector<Index> from = p.read(s, {hq, row, number});
  const Index place = ((b * s.c().n_heads + from[0]) * s.rows() + from[1]) * s.c().d_v + from[2];
  const Index gate_head =
      shared(s) ? b * s.c().n_kv_groups + hq / s.heads() : b * s.c().n_heads + hq;
  const Vector gate = row_of(s.right.gate, gate_head * s.rows() + row);
  const double parts[] = {
      s.right.o_cmp.data[place], s.right.o_sel.data[place], s.right.o_win.data[place]};
  double sum = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    sum += p.shares[k] * (p.gated ? gate[p.gates[k]] : 1) * parts[k];
  }
  return sum;
}

Restatement mixed_with(const PlainMix& p) {
  return [p](const Case& s, Stage) {
    return built(s.right.y.shape, [&](const std::vector<Index>& at) {
      Vector concatenated;
      for (Index column = 0; column < s.c().n_heads * s.c().d_v; ++column) {
        const std::vector<Index> from = p.at(s, at[1], column);
        concatenated.push_back(mixed_number(s, p, at[0], from[0], from[1], from[2]));
      }
      Vector y;
      for (Index e = 0; e < s.c().dim; ++e) {
        y.push_back(dot(row_of(s.w("out.weight"), e), concatenated));
      }
      return y;
    });
  };
}

// [H,R,V] in memory, read as [R,H*V].
std::vector<Index> reshaped_place(const Case& s, Index row, Index column) {
  const Index place = row * s.c().n_heads * s.c().d_v + column;
  return {place / (s.rows() * s.c().d_v), place / s.c().d_v % s.rows(), place % s.c().d_v};
}

// Column block j holds the head of which j is i*G + g.
std::vector<Index> group_minor_place(const Case& s, Index row, Index column) {
  const Index j = column / s.c().d_v;
  const Index hq = j % s.c().n_kv_groups * s.heads() + j / s.c().n_kv_groups;
  return {hq, row, column % s.c().d_v};
}

// Head hq at row r of outputs in memory order [R,H,V] that were laid out as [H,R,V].
std::vector<Index> head_as_row(const Case& s, const std::vector<Index>& at) {
  const Index place = at[1] * s.c().n_heads + at[0];
  return reshaped_place(s, 0, place * s.c().d_v + at[2]);
}

// Column block g*h + i holds head i*G + g.
std::vector<Index> group_major_place(const Case& s, Index row, Index column) {
  const Index own = column / s.c().d_v;
  const Index hq = own % s.heads() * s.c().n_kv_groups + own / s.heads();
  return {hq, row, column % s.c().d_v};
}

TEST(StageMixing, EveryLawIsWhatItSays) {
  const double third = 1.0 / 3;
  expect_all_restated({Stage::y},
                      {{"without_cmp", mixed_with({.shares = {0, 1, 1}})},
                       {"without_sel", mixed_with({.shares = {1, 0, 1}})},
                       {"without_win", mixed_with({.shares = {1, 1, 0}})},
                       {"only_cmp", mixed_with({.shares = {1, 0, 0}, .gated = false})},
                       {"only_sel", mixed_with({.shares = {0, 1, 0}, .gated = false})},
                       {"only_win", mixed_with({.shares = {0, 0, 1}, .gated = false})},
                       {"ungated", mixed_with({.gated = false})},
                       {"averaged", mixed_with({.shares = {third, third, third}, .gated = false})},
                       {"cmp_sel_exchanged", mixed_with({.gates = {1, 0, 2}})},
                       {"cmp_win_exchanged", mixed_with({.gates = {2, 1, 0}})},
                       {"sel_win_exchanged", mixed_with({.gates = {0, 2, 1}})},
                       {"order_sel_win_cmp", mixed_with({.gates = {1, 2, 0}})},
                       {"order_win_cmp_sel", mixed_with({.gates = {2, 0, 1}})},
                       {"heads_reshaped", mixed_with({.at = reshaped_place})},
                       {"branches_reshaped", mixed_with({.read = head_as_row})},
                       {"heads_group_minor", mixed_with({.at = group_minor_place})},
                       {"heads_group_major", mixed_with({.at = group_major_place})}});
}

// Where a constant was asked for, the learned gate is a law of the gate and of y.
TEST(StageGate, TheLearnedGateInPlaceOfAConstantOne) {
  const Case learned(case_layer(1, [](auto&) {}), {});
  const Case constant(case_layer(1, [](auto&) {}), {.gate_override = {{0, 1, 0}}});
  EXPECT_FALSE(lists(learned.laws(Stage::gate), "learned"));
  EXPECT_EQ(constant.output("learned", Stage::gate).data, learned.right.gate.data);
  EXPECT_LT(largest_difference(constant.output("learned", Stage::y), learned.right.y), 1e-13);
  EXPECT_GT(largest_difference(constant.right.y, learned.right.y), 1e-3);
}

TEST(StageMixing, TheRestatementWithoutALawIsTheRightOne) {
  for (const Case& s : cases()) {
    EXPECT_LT(largest_difference(mixed_with({})(s, Stage::y), s.right.y), 1e-12);
  }
}

// Where only some rows are there, no law can mix them.
TEST(StageMixing, SomeRowsAreNotReshaped) {
  EXPECT_TRUE(lists(cases()[0].laws(Stage::y), "heads_reshaped"));
  EXPECT_FALSE(lists(cases()[2].laws(Stage::y), "heads_reshaped"));
}

// ---- offsets that begin again at a power of two ---------------------------------------------------
// Against the same said in loops; what they give is named, with operand, order and element; what is wrong elsewhere, or in fewer
// rows, is not.

// Number i of vector (b, head, t) of an operand with `heads` heads of `tokens` vectors, read with short offsets.
double read_short(
    const Tensor& x, Index heads, const OffsetForm& form, Index b, Index head, Index t, Index i) {
  const Index tokens = x.shape[x.shape.size() - 2];
  const Index width = x.shape.back();
  const bool first = form.order == oracles::Order::heads_first;
  const Index vector = first ? (b * heads + head) * tokens + t : (b * tokens + t) * heads + head;
  const Index at = (vector * width + i) % (Index{1} << form.bits);
  const Index from = at / width;
  const Index inner = first ? from % tokens : from % heads;
  const Index outer = first ? from / tokens % heads : from / heads % tokens;
  const Index from_head = first ? outer : inner;
  const Index from_token = first ? inner : outer;
  const Index from_b = from / (heads * tokens);
  return x.data[static_cast<std::size_t>(
      ((from_b * heads + from_head) * tokens + from_token) * width + at % width)];
}

// The window branch, number by number.
Tensor window_read_short(const Case& s, const OffsetForm& form) {
  const Tensor& q = s.stages.input(Stage::q);
  const Tensor& k = s.stages.input(Stage::k_win);
  const Tensor& v = s.stages.input(Stage::v_win);
  const Index groups = s.c().n_kv_groups;
  const OffsetForm right{form.operand, oracles::Order::heads_first, 62};
  const auto form_of = [&](Operand operand) {
    const bool both = form.operand == Operand::keys_and_values && operand != Operand::queries;
    return form.operand == operand || both ? form : right;
  };
  return built(
      {s.batch(), groups, s.heads(), s.rows(), s.c().d_v}, [&](const std::vector<Index>& at) {
        const Index t = at[3];
        const Index head = at[1] * s.heads() + at[2];
        Vector out(static_cast<std::size_t>(s.c().d_v), 0.0);
        double sum = 0;
        for (Index u = std::max<Index>(0, t - s.c().w + 1); u <= t; ++u) {
          double logit = 0;
          for (Index i = 0; i < s.c().d_k; ++i) {
            logit += read_short(q, s.c().n_heads, form_of(Operand::queries), at[0], head, t, i) *
                     read_short(k, groups, form_of(Operand::keys), at[0], at[1], u, i);
          }
          const double weight = std::exp(logit / std::sqrt(static_cast<double>(s.c().d_k)));
          sum += weight;
          for (Index i = 0; i < s.c().d_v; ++i) {
            out[static_cast<std::size_t>(i)] +=
                weight * read_short(v, groups, form_of(Operand::values), at[0], at[1], u, i);
          }
        }
        for (double& number : out) number /= sum;
        return out;
      });
}

Naming named_offsets(const Case& s, Stage stage, const Tensor& found) {
  const Tensor wanted = s.stages.right(stage);
  const Allowed allowed{0x1p-20, finite_scale(wanted), 0x1p-24};
  return name_stage(
      s.stages, stage, found, wanted, wrong_vectors(found, wanted, allowed.of(wanted)), allowed);
}

constexpr std::array kForms = {
    OffsetForm{Operand::queries, oracles::Order::heads_first, 11},
    OffsetForm{Operand::queries, oracles::Order::tokens_first, 11},
    OffsetForm{Operand::keys, oracles::Order::heads_first, 9},
    OffsetForm{Operand::values, oracles::Order::tokens_first, 8},
    OffsetForm{Operand::keys_and_values, oracles::Order::heads_first, 9}};

int reaches(const Tensor& x) {
  int bits = 0;
  while ((std::size_t{2} << bits) < x.data.size()) ++bits;
  return bits;
}

TEST(OffsetLaws, GiveWhatLoopsGiveAndAreNamed) {
  const Case& s = cases().front();
  for (OffsetForm form : kForms) {
    const bool queries = form.operand == Operand::queries;
    form.bits = reaches(s.stages.input(queries ? Stage::q : Stage::k_win)) - form.bits % 2;
    const Tensor found = output_under(form, s.stages, Branch::win);
    const Tensor plain = window_read_short(s, form);
    ASSERT_EQ(found.shape, plain.shape);
    for (std::size_t i = 0; i < found.data.size(); ++i) {
      ASSERT_NEAR(found.data[i], plain.data[i], 1e-12);
    }
    const Naming naming = named_offsets(s, Stage::o_win, found);
    ASSERT_FALSE(naming.right.fits());
    ASSERT_NE(naming.alone(), nullptr) << naming.text();
    EXPECT_EQ(naming.alone()->law.name, kOffsetsBeginAgain.name);
    EXPECT_NE(naming.alone()->detail.find("2^" + std::to_string(form.bits)), std::string::npos)
        << naming.alone()->detail;
  }
}

TEST(OffsetLaws, EveryRowBeforeTheWrapIsRight) {
  const Case& s = cases().front();
  const OffsetForm form{
      Operand::queries, oracles::Order::heads_first, reaches(s.stages.input(Stage::q))};
  const Tensor wanted = s.stages.right(Stage::o_sel);
  const Tensor found = output_under(form, s.stages, Branch::sel);
  const auto first = static_cast<std::size_t>((Index{1} << form.bits) / s.c().d_k);
  const auto wrong = wrong_vectors(found, wanted, 1e-9);
  ASSERT_FALSE(wrong.empty());
  EXPECT_GE(wrong.front(), first);
}

// Half of the rows that the law would change, and a head that is wrong by itself.
TEST(OffsetLaws, AreNotNamedWhereTheyDoNotGiveAll) {
  const Case& s = cases().front();
  const OffsetForm form{
      Operand::queries, oracles::Order::heads_first, reaches(s.stages.input(Stage::q))};
  const Tensor wanted = s.stages.right(Stage::o_win);
  Tensor half = output_under(form, s.stages, Branch::win);
  const auto wrong = wrong_vectors(half, wanted, 1e-9);
  const auto width = static_cast<std::size_t>(s.c().d_v);
  for (std::size_t i = 0; i < wrong.size(); i += 2) {
    std::copy_n(wanted.data.begin() + static_cast<std::ptrdiff_t>(wrong[i] * width),
                width,
                half.data.begin() + static_cast<std::ptrdiff_t>(wrong[i] * width));
  }
  Tensor tail = wanted;
  for (std::size_t i = wrong.front() * width; i < tail.data.size(); ++i) tail.data[i] += 0.5;
  for (const Tensor& found : {half, tail}) {
    for (const LawFit& fit : named_offsets(s, Stage::o_win, found).fitting) {
      EXPECT_NE(fit.law.name, kOffsetsBeginAgain.name);
    }
  }
}

// ---- tiles that are put together wrongly -----------------------------------------------------------
// Against an online softmax in plain loops, and parts that are merged in plain loops.

// The tile that a key is in, by the words of the form.
Index tile_of(const std::string& form, Index key, Index place, Index count, Index listed) {
  const bool parts = form.find("parts") != std::string::npos;
  const bool of_row = form.find("row's") != std::string::npos;
  const Index size = std::stol(form.substr(parts ? 0 : std::string("tiles of ").size()));
  const Index all = of_row ? listed : count;
  return (of_row ? place : key) / (parts ? (all + size - 1) / size : size);
}

// One row of one head: logits and values in order, and the tile of each.
Vector online(const std::string& law,
              const Vector& logits,
              const std::vector<Vector>& values,
              const std::vector<Index>& tiles) {
  Vector out(values.front().size(), 0.0);
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t begin = 0, end = 0; begin < logits.size(); begin = end) {
    while (end < logits.size() && tiles[end] == tiles[begin]) ++end;
    const double before = most;
    for (std::size_t i = begin; i < end; ++i) most = std::max(most, logits[i]);
    const double down = std::exp(before - most);
    if (law == "accumulator_not_rescaled" && begin > 0) sum *= down;
    for (double& number : out) number *= law == "sum_not_rescaled" ? down : 1;
    for (std::size_t i = begin; i < end; ++i) {
      const double weight = std::exp(logits[i] - most);
      sum += weight;
      for (std::size_t c = 0; c < out.size(); ++c) out[c] += weight * values[i][c];
    }
  }
  for (double& number : out) number /= sum;
  return out;
}

Vector merged(double base,
              const Vector& logits,
              const std::vector<Vector>& values,
              const std::vector<Index>& tiles) {
  Vector out(values.front().size(), 0.0);
  double all = 0;
  for (std::size_t begin = 0, end = 0; begin < logits.size(); begin = end) {
    double sum = 0;
    Vector part(out.size(), 0.0);
    for (; end < logits.size() && tiles[end] == tiles[begin]; ++end) {
      const double weight = std::exp(logits[end]);
      sum += weight;
      for (std::size_t c = 0; c < out.size(); ++c) part[c] += weight * values[end][c];
    }
    const double share = std::pow(base, std::log(sum));
    all += share;
    for (std::size_t c = 0; c < out.size(); ++c) out[c] += share * part[c] / sum;
  }
  for (double& number : out) number /= all;
  return out;
}

Tensor tiled_plainly(const Case& s, Stage stage, const std::string& law, const std::string& form) {
  return built(s.stages.shape_of(stage), [&](const std::vector<Index>& at) {
    const Vector q = query(s, at[0], at[1] * s.heads() + at[2], at[3]);
    Vector logits;
    std::vector<Vector> values;
    std::vector<Index> keys;
    for (Index u = 0; u < count_of(s, stage); ++u) {
      if (!sees(s, stage, at[0], at[1], at[3], u)) continue;
      logits.push_back(dot(q, key(s, stage, at[0], at[1], u)) / usual_root(s));
      values.push_back(value(s, stage, at[0], at[1], u));
      keys.push_back(u);
    }
    if (keys.empty()) return Vector(static_cast<std::size_t>(s.c().d_v), 0.0);
    std::vector<Index> tiles;
    for (const Index u : keys) {
      tiles.push_back(tile_of(form,
                              u,
                              static_cast<Index>(tiles.size()),
                              count_of(s, stage),
                              static_cast<Index>(keys.size())));
    }
    if (law == "merged_with_base_e")
      return merged(std::exp(1 / std::log(2.0)), logits, values, tiles);
    if (law == "merged_with_base_two") return merged(2, logits, values, tiles);
    return online(law, logits, values, tiles);
  });
}

TEST(TiledLaws, GiveWhatLoopsGive) {
  for (const Stage stage : kOutputs) {
    for (const Law& law : tiled_laws()) {
      double change = 0;
      for (const std::string& form : tiled_forms()) {
        const Case& s = cases()[stage == Stage::o_win ? 1 : 0];
        const Tensor found = tiled_output(law.name, form, s.stages, branch_of(stage));
        EXPECT_LT(largest_difference(found, tiled_plainly(s, stage, std::string(law.name), form)),
                  1e-11)
            << law.name << ", " << form;
        change = std::max(change, largest_difference(found, s.stages.right(stage)));
      }
      EXPECT_GT(change, 1e-3) << law.name;
    }
  }
}

// Keys whose logits grow, so that every tile raises the maximum.
TEST(TiledLaws, AreNamedWithTheFormsThatGiveIt) {
  for (const Law& law : tiled_laws()) {
    for (const std::string& form : tiled_forms()) {
      const Case& s = cases().front();
      const Tensor found = tiled_output(law.name, form, s.stages, Branch::cmp);
      const Naming naming = named_offsets(s, Stage::o_cmp, found);
      if (naming.right.fits()) continue;  // all keys in one tile
      ASSERT_NE(naming.alone(), nullptr) << law.name << ", " << form << ": " << naming.text();
      EXPECT_EQ(naming.alone()->law.name, law.name) << form;
      EXPECT_NE(naming.alone()->detail.find(form), std::string::npos) << naming.alone()->detail;
    }
  }
}

}  // namespace
}  // namespace oracles::testing
