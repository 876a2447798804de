// Wrong laws of the branch outputs, the gate and y against the laws said in plain words.
#include "tests/oracles/stage_case.h"

namespace oracles::testing {
namespace {

std::string branch_of(Stage stage) {
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
             : naive_key(s.c(), s.layer.weights, branch_of(stage), s.layer.x, b, g, u);
}
Vector unrotated_key(const Case& s, Stage stage, Index b, Index g, Index u) {
  return projected(s, "W_K_" + branch_of(stage) + ".weight", g * s.c().d_k, s.c().d_k, b, u);
}
Vector value(const Case& s, Stage stage, Index b, Index g, Index u) {
  return stage == Stage::o_cmp
             ? row_of(s.right.v_cmp, (b * s.c().n_kv_groups + g) * s.tokens() + u)
             : naive_value(s.c(), s.layer.weights, branch_of(stage), s.layer.x, b, g, u);
}
Vector query(const Case& s, Index b, Index hq, Index row) {
  return row_of(s.right.q, (b * s.c().n_heads + hq) * s.rows() + row);
}
Vector unrotated_query(const Case& s, Index b, Index hq, Index row) {
  return projected(s, "W_Q.weight", hq * s.c().d_k, s.c().d_k, b, s.right.rows[row]);
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
  Index (*key_group)(const Case&, Index g, Index i) = own_group;
  Index (*value_group)(const Case&, Index g, Index i) = own_group;
  Index value_shift = 0;
  // Does the softmax's sum hold keys that the query does not see?
  bool all_in_sum = false;
  // How often a key that it sees is attended to.
  double (*times)(const Case&, Index t, Index block) = nullptr;
};

Vector output_of_head(
    const Case& s, Stage stage, const Plain& p, Index b, Index g, Index i, Index row) {
  const Vector q = p.query(s, b, g * s.heads() + i, row);
  Vector out(static_cast<std::size_t>(s.c().d_v), 0.0);
  double sum = 0;
  for (Index u = 0; u < count_of(s, stage); ++u) {
    const bool seen = sees(s, stage, b, g, row, u);
    if (!seen && !p.all_in_sum) {
      continue;
    }
    double weight = std::exp(dot(q, p.key(s, stage, b, p.key_group(s, g, i), u)) / p.root(s));
    if (p.times != nullptr) {
      weight *= p.times(s, s.right.rows[row], u / s.c().l_sel);
    }
    sum += weight;
    const Index from = std::min(std::max<Index>(u + p.value_shift, 0), count_of(s, stage) - 1);
    const Vector v = value(s, stage, b, p.value_group(s, g, i), from);
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

Restatements output_laws() {
  return {
      {"scale_missing", with({.root = [](const Case&) { return 1.0; }})},
      {"scale_twice", with({.root = [](const Case& s) { return static_cast<double>(s.c().d_k); }})},
      {"scale_of_values",
       with({.root = [](const Case& s) { return std::sqrt(static_cast<double>(s.c().d_v)); }})},
      {"normalised_over_all", with({.all_in_sum = true})},
      {"forced_twice",
       with({.times =
                 [](const Case& s, Index t, Index block) {
                   const Index current = t / s.c().l_sel;
                   const bool initial = block < s.c().init_blocks;
                   const bool local = current - block < s.c().local_blocks;
                   return initial && local ? 2.0 : 1.0;
                 }})},
      {"current_twice",
       with({.times = [](const Case& s,
                         Index t,
                         Index block) { return t / s.c().l_sel == block ? 2.0 : 1.0; }})},
      {"next_groups_keys", with({.key_group = next_group, .value_group = next_group})},
      {"next_groups_values", with({.value_group = next_group})},
      {"heads_interleaved", with({.key_group = interleaved, .value_group = interleaved})},
      {"queries_unrotated", with({.query = unrotated_query})},
      {"keys_unrotated", with({.key = unrotated_key})},
      {"values_one_late", with({.value_shift = 1})},
      {"values_one_early", with({.value_shift = -1})}};
}

constexpr Stage kOutputs[] = {Stage::o_cmp, Stage::o_sel, Stage::o_win};

TEST(StageOutputs, EveryLawIsWhatItSays) {
  expect_all_restated({kOutputs[0], kOutputs[1], kOutputs[2]}, output_laws());
}

TEST(StageOutputs, TheRestatementWithoutALawIsTheRightOne) {
  for (const Case& s : cases()) {
    for (const Stage stage : kOutputs) {
      EXPECT_LT(largest_difference(with({})(s, stage), s.outputs.right(stage)), 1e-12);
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
  EXPECT_LT(largest_difference(s.outputs.output("scale_missing", Stage::o_sel),
                               output_laws().at("scale_missing")(s, Stage::o_sel)),
            1e-12);
  EXPECT_EQ(s.outputs.right(Stage::blocks).data, cases()[0].outputs.right(Stage::blocks).data);
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

Restatements gate_laws() {
  return {
      {"cmp_sel_exchanged", gate_in_order(1, 0, 2)},
      {"cmp_win_exchanged", gate_in_order(2, 1, 0)},
      {"sel_win_exchanged", gate_in_order(0, 2, 1)},
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
      {"next_group", gate_with({.group = next_group})}};
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
  // Which number of row r, as (head, row, number), stands at column `column` of the output's input.
  std::function<std::vector<Index>(const Case&, Index row, Index column)> at =
      [](const Case& s, Index row, Index column) {
        return std::vector<Index>{column / s.c().d_v, row, column % s.c().d_v};
      };
};

double mixed_number(const Case& s, const PlainMix& p, Index b, Index hq, Index row, Index number) {
  const Index place = ((b * s.c().n_heads + hq) * s.rows() + row) * s.c().d_v + number;
  const Index gate_head =
      shared(s) ? b * s.c().n_kv_groups + hq / s.heads() : b * s.c().n_heads + hq;
  const Vector gate = row_of(s.right.gate, gate_head * s.rows() + row);
  const double parts[] = {
      s.right.o_cmp.data[place], s.right.o_sel.data[place], s.right.o_win.data[place]};
  double sum = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    sum += p.shares[k] * (p.gated ? gate[k] : 1) * parts[k];
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

TEST(StageMixing, EveryLawIsWhatItSays) {
  expect_all_restated({Stage::y},
                      {{"without_cmp", mixed_with({.shares = {0, 1, 1}})},
                       {"without_sel", mixed_with({.shares = {1, 0, 1}})},
                       {"without_win", mixed_with({.shares = {1, 1, 0}})},
                       {"ungated", mixed_with({.gated = false})},
                       {"heads_reshaped", mixed_with({.at = reshaped_place})},
                       {"heads_group_minor", mixed_with({.at = group_minor_place})}});
}

TEST(StageMixing, TheRestatementWithoutALawIsTheRightOne) {
  for (const Case& s : cases()) {
    EXPECT_LT(largest_difference(mixed_with({})(s, Stage::y), s.right.y), 1e-12);
  }
}

// Where only some rows are there, no law can mix them.
TEST(StageMixing, SomeRowsAreNotReshaped) {
  EXPECT_TRUE(lists(cases()[0].outputs.laws(Stage::y), "heads_reshaped"));
  EXPECT_FALSE(lists(cases()[2].outputs.laws(Stage::y), "heads_reshaped"));
}

}  // namespace
}  // namespace oracles::testing
