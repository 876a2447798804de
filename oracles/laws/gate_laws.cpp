// Wrong laws of the gate, from right queries and x.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "oracles/attention/gate.h"
#include "oracles/laws/families.h"
#include "oracles/laws/gate_orders.h"
#include "oracles/linear.h"
#include "oracles/silu.h"

namespace oracles {
namespace {

bool is_softmax(const Stages& in, Stage) {
  return in.config().gate == Gate::group_softmax;
}
bool is_sigmoid(const Stages& in, Stage) {
  return in.config().gate == Gate::head_sigmoid;
}
bool has_temperature(const Stages& in, Stage stage) {
  return is_softmax(in, stage) && in.config().gate_temp != 1;
}
bool is_learned(const Stages& in, Stage) {
  return !in.options().gate_override;
}

StageLaw gate_law(std::string_view name,
                  std::string_view about,
                  std::function<Tensor(const Stages&, Stage)> output,
                  std::function<bool(const Stages&, Stage)> makes_sense) {
  return {{name, about},
          {Stage::gate},
          std::move(output),
          [makes_sense](const Stages& in, Stage stage) {
            return is_learned(in, stage) && (!makes_sense || makes_sense(in, stage));
          }};
}

// The right gate of other queries, under another temperature or with other weights.
Tensor gate_of(const Stages& in, const Tensor& q, double temperature) {
  AttentionConfig config = in.config();
  config.gate_temp = temperature;
  return gate({config, in.weights(), in.layer().threads}, {q, in.x_of_rows()});
}
Tensor gate_of(const Stages& in, const Weights& weights) {
  return gate({in.config(), weights, in.layer().threads}, {in.input(Stage::q), in.x_of_rows()});
}

// The mean over the heads becomes that of other queries: those of head `from(group, head)` for
// each, group counting over the batch too.
template <typename From>
Tensor with_queries_from(const Stages& in, From from) {
  const Tensor& q = in.input(Stage::q);
  const std::int64_t size = q.shape[3] * q.shape[4];
  Tensor other = q;
  for (std::int64_t head = 0; head < q.shape[0] * q.shape[1] * q.shape[2]; ++head) {
    std::copy_n(q.data.begin() + from(head / q.shape[2], head % q.shape[2]) * size,
                size,
                other.data.begin() + head * size);
  }
  return gate_of(in, other, in.config().gate_temp);
}

Tensor first_head_only(const Stages& in, Stage) {
  const std::int64_t heads = in.config().heads_per_group();
  return with_queries_from(in, [=](std::int64_t group, std::int64_t) { return group * heads; });
}

Tensor next_group(const Stages& in, Stage) {
  const std::int64_t heads = in.config().heads_per_group();
  const std::int64_t groups = in.config().n_kv_groups;
  return with_queries_from(in, [=](std::int64_t group, std::int64_t head) {
    return (group / groups * groups + (group + 1) % groups) * heads + head;
  });
}

Tensor heads_summed(const Stages& in, Stage) {
  Tensor q = in.input(Stage::q);
  for (double& value : q.data) {
    value *= static_cast<double>(in.config().heads_per_group());
  }
  return gate_of(in, q, in.config().gate_temp);
}

Tensor biases_missing(const Stages& in, Stage) {
  Weights weights = in.weights();
  for (const char* name : {"gate.fc1.bias", "gate.fc2.bias"}) {
    weights[name] = zeros(weights[name].shape);
  }
  return gate_of(in, weights);
}

double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

// What the softmax or the sigmoid is taken of, gate_temp included; in the gate's shape.
Tensor gate_logits(const Stages& in) {
  const AttentionConfig& c = in.config();
  if (c.gate == Gate::head_sigmoid) {
    const Tensor z =
        linear(in.x_of_rows(), in.weights().at("gate.proj.weight"), in.layer().threads);
    return reshaped(split_heads(z, c.n_heads), in.shape_of(Stage::gate));
  }
  const Sizes& n = in.sizes();
  const Tensor& q = in.input(Stage::q);
  Tensor mean = zeros({n.batch, n.groups, n.rows, c.d_k});
  const std::int64_t size = n.rows * c.d_k;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(q.data.size()); ++i) {
    mean.data[i / (n.heads * size) * size + i % size] += q.data[i] / static_cast<double>(n.heads);
  }
  Tensor u = linear(mean, in.weights().at("gate.fc1.weight"), in.layer().threads);
  const Tensor& bias = in.weights().at("gate.fc1.bias");
  for (std::size_t i = 0; i < u.data.size(); ++i) {
    u.data[i] = silu(u.data[i] + bias.data[i % bias.data.size()]);
  }
  Tensor z = linear(u, in.weights().at("gate.fc2.weight"), in.layer().threads);
  for (std::size_t i = 0; i < z.data.size(); ++i) {
    z.data[i] = (z.data[i] + in.weights().at("gate.fc2.bias").data[i % 3]) / c.gate_temp;
  }
  return z;
}

// Softmax over `count` numbers that lie `step` apart, for each of the first `step` places of a run.
void softmax_apart(Tensor& z, std::size_t count, std::size_t step) {
  for (std::size_t run = 0; run < z.data.size(); run += count * step) {
    for (std::size_t at = run; at < run + step; ++at) {
      double largest = z.data[at];
      for (std::size_t i = 0; i < count; ++i) {
        largest = std::max(largest, z.data[at + i * step]);
      }
      double sum = 0;
      for (std::size_t i = 0; i < count; ++i) {
        sum += z.data[at + i * step] = std::exp(z.data[at + i * step] - largest);
      }
      for (std::size_t i = 0; i < count; ++i) {
        z.data[at + i * step] /= sum;
      }
    }
  }
}

// Softmax over the three for head_sigmoid, sigmoids for group_softmax.
Tensor other_function(const Stages& in, Stage) {
  Tensor z = gate_logits(in);
  if (in.config().gate == Gate::head_sigmoid) {
    softmax_apart(z, 3, 1);
    return z;
  }
  std::transform(z.data.begin(), z.data.end(), z.data.begin(), sigmoid);
  return z;
}

// In [B,G,R,3], over the groups or over the rows in place of the branches.
Tensor softmax_over_groups(const Stages& in, Stage) {
  Tensor z = gate_logits(in);
  softmax_apart(z, static_cast<std::size_t>(z.shape[1]), static_cast<std::size_t>(z.shape[2] * 3));
  return z;
}
Tensor softmax_over_rows(const Stages& in, Stage) {
  Tensor z = gate_logits(in);
  softmax_apart(z, static_cast<std::size_t>(z.shape[2]), 3);
  return z;
}

// head_sigmoid with number k of head hq from row `row(hq, k)` of the projection.
template <typename Row>
Tensor with_rows_from(const Stages& in, Row row) {
  Weights weights = in.weights();
  const Tensor& right = in.weights().at("gate.proj.weight");
  Tensor& other = weights.at("gate.proj.weight");
  for (std::int64_t i = 0; i < right.shape[0]; ++i) {
    std::copy_n(right.data.begin() + row(i / 3, i % 3) * right.shape[1],
                right.shape[1],
                other.data.begin() + i * right.shape[1]);
  }
  return gate_of(in, weights);
}

StageLaw constant(std::string_view name, std::string_view about, double value) {
  return gate_law(
      name,
      about,
      [value](const Stages& in, Stage stage) { return filled(in.shape_of(stage), value); },
      {});
}

std::vector<StageLaw> head_laws() {
  return {gate_law(
              "branch_major",
              "row k*H + hq of the projection in place of 3*hq + k",
              [](const Stages& in, Stage) {
                return with_rows_from(in, [&](std::int64_t head, std::int64_t k) {
                  return k * in.config().n_heads + head;
                });
              },
              [](const Stages& in, Stage stage) {
                return is_sigmoid(in, stage) && in.config().n_heads > 1;
              }),
          gate_law(
              "heads_group_minor",
              "head i*G + g of the projection as head i of group g",
              [](const Stages& in, Stage) {
                return with_rows_from(in, [&](std::int64_t head, std::int64_t k) {
                  return 3 * group_minor(in.config(), head) + k;
                });
              },
              [](const Stages& in, Stage stage) {
                return is_sigmoid(in, stage) && has_groups_of_heads(in, stage);
              }),
          gate_law("first_head_only",
                   "of the first head's query",
                   first_head_only,
                   [](const Stages& in, Stage stage) {
                     return is_softmax(in, stage) && has_heads_in_groups(in, stage);
                   }),
          gate_law("heads_summed",
                   "of the sum of the heads' queries",
                   heads_summed,
                   [](const Stages& in, Stage stage) {
                     return is_softmax(in, stage) && has_heads_in_groups(in, stage);
                   }),
          gate_law("next_group",
                   "of the queries of group g + 1, of the first for the last",
                   next_group,
                   [](const Stages& in, Stage stage) {
                     return is_softmax(in, stage) && has_groups(in, stage);
                   })};
}

std::vector<StageLaw> function_laws() {
  return {gate_law("other_function",
                   "sigmoids for group_softmax, a softmax for head_sigmoid",
                   other_function,
                   {}),
          gate_law("softmax_over_groups",
                   "softmax over the groups in place of the branches",
                   softmax_over_groups,
                   [](const Stages& in, Stage stage) {
                     return is_softmax(in, stage) && has_groups(in, stage);
                   }),
          gate_law("softmax_over_rows",
                   "softmax over the queries in place of the branches",
                   softmax_over_rows,
                   [](const Stages& in, Stage stage) {
                     return is_softmax(in, stage) && in.has_all_rows() && in.sizes().rows > 1;
                   }),
          gate_law(
              "queries_unrotated",
              "of queries that are not rotated",
              [](const Stages& in, Stage) {
                return gate_of(in, unrotated_queries(in), in.config().gate_temp);
              },
              is_softmax),
          gate_law(
              "temperature_ignored",
              "gate_temp taken as 1",
              [](const Stages& in, Stage) { return gate_of(in, in.input(Stage::q), 1); },
              has_temperature),
          gate_law(
              "temperature_multiplied",
              "times gate_temp",
              [](const Stages& in, Stage) {
                return gate_of(in, in.input(Stage::q), 1 / in.config().gate_temp);
              },
              has_temperature),
          gate_law("biases_missing", "no biases", biases_missing, is_softmax)};
}

}  // namespace

std::span<const GateOrder> gate_orders() {
  static constexpr std::array<GateOrder, 5> kOrders{
      {{"cmp_sel_exchanged", "in the order sel, cmp, win", {1, 0, 2}},
       {"cmp_win_exchanged", "in the order win, sel, cmp", {2, 1, 0}},
       {"sel_win_exchanged", "in the order cmp, win, sel", {0, 2, 1}},
       {"order_sel_win_cmp", "in the order sel, win, cmp", {1, 2, 0}},
       {"order_win_cmp_sel", "in the order win, cmp, sel", {2, 0, 1}}}};
  return kOrders;
}

Tensor reordered(const Tensor& gate, const std::array<std::size_t, 3>& order) {
  Tensor out = gate;
  for (std::size_t i = 0; i < gate.data.size(); i += 3) {
    for (std::size_t k = 0; k < 3; ++k) {
      out.data[i + k] = gate.data[i + order[k]];
    }
  }
  return out;
}

std::vector<StageLaw> gate_laws() {
  std::vector<StageLaw> laws = {
      {{"learned", "the learned gate where a constant was asked for"},
       {Stage::gate},
       [](const Stages& in, Stage) { return in.learned_gate(); },
       [](const Stages& in, Stage stage) { return !is_learned(in, stage); }},
      constant("equal_shares", "one third each", 1.0 / 3),
      constant("all_open", "one each", 1)};
  for (const GateOrder& order : gate_orders()) {
    laws.push_back(
        {{order.name, order.about},
         {Stage::gate},
         [order](const Stages& in, Stage stage) { return reordered(in.right(stage), order.order); },
         {}});
  }
  return joined({laws, function_laws(), head_laws()});
}

}  // namespace oracles
