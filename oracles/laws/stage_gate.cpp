// Wrong laws of the gate, from right queries and x, and of y, from right branch outputs and gate.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "oracles/attention/gate.h"
#include "oracles/laws/stage_rules.h"
#include "oracles/linear.h"
#include "oracles/silu.h"

namespace oracles {
namespace {

bool is_softmax(const StageInputs& in, Stage) {
  return in.config.gate == Gate::group_softmax;
}
bool is_sigmoid(const StageInputs& in, Stage) {
  return in.config.gate == Gate::head_sigmoid;
}
bool has_temperature(const StageInputs& in, Stage stage) {
  return is_softmax(in, stage) && in.config.gate_temp != 1;
}
bool has_heads(const StageInputs& in, Stage stage) {
  return is_softmax(in, stage) && in.config.heads_per_group() > 1;
}
bool has_groups(const StageInputs& in, Stage stage) {
  return is_softmax(in, stage) && in.config.n_kv_groups > 1;
}

// The right gate of other queries or under another temperature.
Tensor gate_of(const StageInputs& in, const Tensor& q, double temperature) {
  AttentionConfig config = in.config;
  config.gate_temp = temperature;
  return gate({config, in.weights, in.threads}, {q, in.forward.projections.x_BRE});
}

// The mean over the heads becomes that of other queries: those of head `from(group, head)` for
// each, group counting over the batch too.
template <typename From>
Tensor with_queries_from(const StageInputs& in, From from) {
  const Tensor& q = in.forward.projections.q_BGhRD;
  const std::int64_t size = q.shape[3] * q.shape[4];
  Tensor other = q;
  for (std::int64_t head = 0; head < q.shape[0] * q.shape[1] * q.shape[2]; ++head) {
    std::copy_n(q.data.begin() + from(head / q.shape[2], head % q.shape[2]) * size,
                size,
                other.data.begin() + head * size);
  }
  return gate_of(in, other, in.config.gate_temp);
}

Tensor first_head_only(const StageInputs& in, Stage) {
  const std::int64_t heads = in.config.heads_per_group();
  return with_queries_from(in, [=](std::int64_t group, std::int64_t) { return group * heads; });
}

Tensor next_group(const StageInputs& in, Stage) {
  const std::int64_t heads = in.config.heads_per_group();
  const std::int64_t groups = in.config.n_kv_groups;
  return with_queries_from(in, [=](std::int64_t group, std::int64_t head) {
    return (group / groups * groups + (group + 1) % groups) * heads + head;
  });
}

Tensor heads_summed(const StageInputs& in, Stage) {
  Tensor q = in.forward.projections.q_BGhRD;
  for (double& value : q.data) {
    value *= static_cast<double>(in.config.heads_per_group());
  }
  return gate_of(in, q, in.config.gate_temp);
}

Tensor biases_missing(const StageInputs& in, Stage) {
  Weights weights = in.weights;
  for (const char* name : {"gate.fc1.bias", "gate.fc2.bias"}) {
    weights[name] = zeros(weights[name].shape);
  }
  return gate({in.config, weights, in.threads},
              {in.forward.projections.q_BGhRD, in.forward.projections.x_BRE});
}

double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

// What the softmax or the sigmoid is taken of, without gate_temp; in the gate's shape.
Tensor gate_logits(const StageInputs& in) {
  const Projections& p = in.forward.projections;
  const Shape& shape = in.forward.result.gate.shape;
  if (in.config.gate == Gate::head_sigmoid) {
    const Tensor z = linear(p.x_BRE, in.weights.at("gate.proj.weight"), in.threads);
    return reshaped(split_heads(z, in.config.n_heads), shape);
  }
  const Sizes& n = in.sizes();
  Tensor mean = zeros({n.batch, n.groups, n.rows, in.config.d_k});
  const std::int64_t size = n.rows * in.config.d_k;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(p.q_BGhRD.data.size()); ++i) {
    mean.data[i / (n.heads * size) * size + i % size] +=
        p.q_BGhRD.data[i] / static_cast<double>(n.heads);
  }
  Tensor u = linear(mean, in.weights.at("gate.fc1.weight"), in.threads);
  for (std::size_t i = 0; i < u.data.size(); ++i) {
    const Tensor& bias = in.weights.at("gate.fc1.bias");
    u.data[i] = silu(u.data[i] + bias.data[i % bias.data.size()]);
  }
  Tensor z = linear(u, in.weights.at("gate.fc2.weight"), in.threads);
  for (std::size_t i = 0; i < z.data.size(); ++i) {
    z.data[i] += in.weights.at("gate.fc2.bias").data[i % 3];
  }
  return z;
}

// Softmax over the three for head_sigmoid, sigmoids for group_softmax.
Tensor other_function(const StageInputs& in, Stage) {
  Tensor z = gate_logits(in);
  for (std::size_t i = 0; i < z.data.size(); i += 3) {
    const std::array<double, 3> s{z.data[i], z.data[i + 1], z.data[i + 2]};
    const double largest = *std::max_element(s.begin(), s.end());
    double sum = 0;
    for (const double value : s) {
      sum += std::exp(value - largest);
    }
    for (std::size_t k = 0; k < 3; ++k) {
      z.data[i + k] = in.config.gate == Gate::head_sigmoid ? std::exp(s[k] - largest) / sum
                                                           : sigmoid(s[k] / in.config.gate_temp);
    }
  }
  return z;
}

// head_sigmoid with number k of head hq from row `row(hq, k)` of the projection.
template <typename Row>
Tensor with_rows_from(const StageInputs& in, Row row) {
  Weights weights = in.weights;
  const Tensor& right = in.weights.at("gate.proj.weight");
  Tensor& other = weights.at("gate.proj.weight");
  for (std::int64_t i = 0; i < right.shape[0]; ++i) {
    std::copy_n(right.data.begin() + row(i / 3, i % 3) * right.shape[1],
                right.shape[1],
                other.data.begin() + i * right.shape[1]);
  }
  return gate({in.config, weights, in.threads},
              {in.forward.projections.q_BGhRD, in.forward.projections.x_BRE});
}

// The place of head i*G + g where g*h + i belongs.
std::int64_t group_minor(const AttentionConfig& c, std::int64_t head) {
  return head % c.heads_per_group() * c.n_kv_groups + head / c.heads_per_group();
}

StageRule exchange(std::string_view name, std::string_view about, std::size_t a, std::size_t b) {
  return {{name, {Stage::gate}, about},
          [a, b](const StageInputs& in, Stage) {
            Tensor value = in.forward.result.gate;
            for (std::size_t i = 0; i < value.data.size(); i += 3) {
              std::swap(value.data[i + a], value.data[i + b]);
            }
            return value;
          },
          {}};
}

StageRule constant(std::string_view name, std::string_view about, double value) {
  return {
      {name, {Stage::gate}, about},
      [value](const StageInputs& in, Stage) { return filled(in.forward.result.gate.shape, value); },
      {}};
}

std::vector<StageRule> order_rules() {
  using enum Stage;
  return {exchange("cmp_sel_exchanged", "order sel, cmp, win", 0, 1),
          exchange("cmp_win_exchanged", "order win, sel, cmp", 0, 2),
          exchange("sel_win_exchanged", "order cmp, win, sel", 1, 2),
          constant("equal_shares", "one third each", 1.0 / 3),
          constant("all_open", "one each", 1),
          {{"other_function", {gate}, "sigmoids for group_softmax, a softmax for head_sigmoid"},
           other_function,
           {}},
          {{"branch_major", {gate}, "row k*H + hq of the projection in place of 3*hq + k"},
           [](const StageInputs& in, Stage) {
             return with_rows_from(in, [&](std::int64_t head, std::int64_t k) {
               return k * in.config.n_heads + head;
             });
           },
           [](const StageInputs& in, Stage stage) {
             return is_sigmoid(in, stage) && in.config.n_heads > 1;
           }},
          {{"heads_group_minor", {gate}, "head i*G + g of the projection as head i of group g"},
           [](const StageInputs& in, Stage) {
             return with_rows_from(in, [&](std::int64_t head, std::int64_t k) {
               return 3 * group_minor(in.config, head) + k;
             });
           },
           [](const StageInputs& in, Stage stage) {
             return is_sigmoid(in, stage) && in.config.n_kv_groups > 1 &&
                    in.config.heads_per_group() > 1;
           }}};
}

std::vector<StageRule> input_rules() {
  using enum Stage;
  return {
      {{"queries_unrotated", {gate}, "of queries that are not rotated"},
       [](const StageInputs& in, Stage) {
         return gate_of(in, unrotated_queries(in), in.config.gate_temp);
       },
       is_softmax},
      {{"temperature_ignored", {gate}, "gate_temp taken as 1"},
       [](const StageInputs& in, Stage) { return gate_of(in, in.forward.projections.q_BGhRD, 1); },
       has_temperature},
      {{"temperature_multiplied", {gate}, "times gate_temp"},
       [](const StageInputs& in, Stage) {
         return gate_of(in, in.forward.projections.q_BGhRD, 1 / in.config.gate_temp);
       },
       has_temperature},
      {{"biases_missing", {gate}, "no biases"}, biases_missing, is_softmax},
      {{"first_head_only", {gate}, "of the first head's query"}, first_head_only, has_heads},
      {{"heads_summed", {gate}, "of the sum of the heads' queries"}, heads_summed, has_heads},
      {{"next_group", {gate}, "of the queries of group g + 1, of the first for the last"},
       next_group,
       has_groups}};
}

// gate * o, heads still apart [B,H,R,V]; `shares` are further factors of the three branches. An
// ungated sum has them alone.
Tensor mixed(const StageInputs& in, const std::array<double, 3>& shares, bool gated = true) {
  const AttentionResult& r = in.forward.result;
  const Sizes& n = in.sizes();
  const GateIndex index(in.config, n.rows);
  Tensor o = zeros({n.batch, in.config.n_heads, n.rows, in.config.d_v});
  const std::array<const Tensor*, 3> outputs{&r.o_cmp, &r.o_sel, &r.o_win};
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(o.data.size()); ++i) {
    const std::int64_t place = i / in.config.d_v;
    const std::int64_t head = place / n.rows;
    const std::int64_t at = index.at(head / n.heads, head % n.heads, place % n.rows);
    for (std::size_t k = 0; k < 3; ++k) {
      o.data[i] += shares[k] * (gated ? r.gate.data[at + k] : 1) * outputs[k]->data[i];
    }
  }
  return o;
}

Tensor projected(const StageInputs& in, const Tensor& merged) {
  return linear(merged, in.weights.at("out.weight"), in.threads);
}

StageRule without(std::string_view name, std::string_view about, std::array<double, 3> shares) {
  return {{name, {Stage::y}, about},
          [shares](const StageInputs& in, Stage) {
            return projected(in, merge_heads(mixed(in, shares)));
          },
          {}};
}

constexpr std::array<double, 3> kAll{1, 1, 1};

// [B,H,R,V] read as [B,R,H*V].
Tensor heads_reshaped(const StageInputs& in, Stage) {
  const Tensor o = mixed(in, kAll);
  return projected(in, {{o.shape[0], o.shape[2], o.shape[1] * o.shape[3]}, o.data});
}

Tensor heads_group_minor(const StageInputs& in, Stage) {
  const Tensor o = mixed(in, kAll);
  const std::int64_t size = o.shape[2] * o.shape[3];
  Tensor other = o;
  for (std::int64_t head = 0; head < o.shape[0] * o.shape[1]; ++head) {
    const std::int64_t own = head % o.shape[1];
    std::copy_n(o.data.begin() + head * size,
                size,
                other.data.begin() + (head - own + group_minor(in.config, own)) * size);
  }
  return projected(in, merge_heads(other));
}

}  // namespace

std::vector<StageRule> gate_rules() {
  std::vector<StageRule> rules = order_rules();
  for (StageRule& rule : input_rules()) {
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<StageRule> mixing_rules() {
  using enum Stage;
  return {without("without_cmp", "the compressed branch left out", {0, 1, 1}),
          without("without_sel", "the selected branch left out", {1, 0, 1}),
          without("without_win", "the window branch left out", {1, 1, 0}),
          {{"ungated", {y}, "the plain sum of the branches"},
           [](const StageInputs& in, Stage) {
             return projected(in, merge_heads(mixed(in, kAll, false)));
           },
           {}},
          {{"heads_reshaped", {y}, "[B,H,S,V] read as [B,S,H*V] without a transpose"},
           heads_reshaped,
           [](const StageInputs& in, Stage) {
             return in.config.n_heads > 1 && in.sizes().rows == in.sizes().length;
           }},
          {{"heads_group_minor", {y}, "head i of group g in the place i*G + g"},
           heads_group_minor,
           [](const StageInputs& in, Stage) {
             return in.config.n_kv_groups > 1 && in.config.heads_per_group() > 1;
           }}};
}

}  // namespace oracles
