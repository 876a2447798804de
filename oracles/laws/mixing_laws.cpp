// Wrong laws of y, from right branch outputs and gate; and heads taken for rows wherever there are
// heads.
#include <algorithm>
#include <array>
#include <utility>

#include "oracles/laws/families.h"
#include "oracles/laws/gate_orders.h"

namespace oracles {
namespace {

using enum Stage;

StageLaw mixing_law(std::string_view name,
                    std::string_view about,
                    std::function<Tensor(const Stages&)> output,
                    std::function<bool(const Stages&, Stage)> makes_sense = {}) {
  return {{name, about},
          {y},
          [output = std::move(output)](const Stages& in, Stage) { return output(in); },
          std::move(makes_sense)};
}

// With another gate, made of the right one.
template <typename Change>
StageLaw other_gate(std::string_view name, std::string_view about, Change change) {
  return mixing_law(name, about, [change](const Stages& in) {
    return in.put_out(in.mixed(change(in.input(gate))));
  });
}

// Every gate times the share of its branch; or the share alone.
StageLaw with_shares(std::string_view name,
                     std::string_view about,
                     const std::array<double, 3>& shares,
                     bool gated) {
  return other_gate(name, about, [=](Tensor gate) {
    for (std::size_t i = 0; i < gate.data.size(); ++i) {
      gate.data[i] = shares[i % 3] * (gated ? gate.data[i] : 1);
    }
    return gate;
  });
}

// The mixed heads with head `from(hq)` in the place of hq.
template <typename From>
Tensor with_heads_from(const Stages& in, From from) {
  const Tensor o = in.mixed(in.input(gate));
  const std::int64_t size = o.shape[2] * o.shape[3];
  Tensor other = o;
  for (std::int64_t head = 0; head < o.shape[0] * o.shape[1]; ++head) {
    const std::int64_t own = head % o.shape[1];
    std::copy_n(
        o.data.begin() + (head - own + from(own)) * size, size, other.data.begin() + head * size);
  }
  return in.put_out(other);
}

// The heads [B,n,R,W] in memory order of [B,R,n,W], read as [B,n,R,W]; and back.
Tensor rows_as_heads(const Tensor& heads, std::int64_t lanes, std::int64_t rows) {
  const Shape flat{heads.shape[0], lanes, rows, heads.shape.back()};
  return reshaped(merge_heads(reshaped(heads, flat)), heads.shape);
}
Tensor heads_as_rows(const Tensor& heads, std::int64_t lanes, std::int64_t rows) {
  const Shape flat{heads.shape[0], rows, lanes * heads.shape.back()};
  return reshaped(split_heads(reshaped(heads, flat), lanes), heads.shape);
}

// Heads or groups of one sequence.
std::int64_t lanes_of(const Shape& shape) {
  return shape.size() == 5 ? shape[1] * shape[2] : shape[1];
}

template <typename Turned>
StageLaw layout(std::string_view name,
                std::string_view about,
                std::vector<Stage> stages,
                Turned turned) {
  return {{name, about},
          std::move(stages),
          [turned](const Stages& in, Stage stage) {
            const Tensor right = in.right(stage);
            return turned(right, lanes_of(right.shape), right.shape[right.shape.size() - 2]);
          },
          [](const Stages& in, Stage stage) {
            const Shape shape = in.shape_of(stage);
            return (in.has_all_rows() || !is_of_queries(stage)) && lanes_of(shape) > 1 &&
                   shape[shape.size() - 2] > 1;
          }};
}

bool has_heads_and_all_rows(const Stages& in, Stage) {
  return in.config().n_heads > 1 && in.has_all_rows() && in.sizes().rows > 1;
}

std::vector<StageLaw> head_order_laws() {
  return {mixing_law(
              "heads_reshaped",
              "[B,H,S,V] read as [B,S,H*V] without a transpose",
              [](const Stages& in) {
                const Tensor o = in.mixed(in.input(gate));
                return in.put_out(heads_as_rows(o, o.shape[1], o.shape[2]));
              },
              has_heads_and_all_rows),
          mixing_law(
              "branches_reshaped",
              "the branch outputs [B,H,S,V] read as [B,S,H*V] without a transpose, then mixed",
              [](const Stages& in) {
                Stages other(in.config(), in.weights(), in.x(), in.options());
                std::array<Tensor, 3> outputs;
                for (std::size_t i = 0; i < outputs.size(); ++i) {
                  const Stage stage = output_stage(kBranches[i]);
                  outputs[i] = heads_as_rows(in.input(stage), in.config().n_heads, in.sizes().rows);
                  other.record(stage, outputs[i]);
                }
                return in.put_out(other.mixed(in.input(gate)));
              },
              has_heads_and_all_rows),
          mixing_law(
              "heads_group_minor",
              "head i of group g in the place i*G + g",
              [](const Stages& in) {
                const AttentionConfig& c = in.config();
                return with_heads_from(in, [&](std::int64_t head) {
                  return head % c.n_kv_groups * c.heads_per_group() + head / c.n_kv_groups;
                });
              },
              has_groups_of_heads),
          mixing_law(
              "heads_group_major",
              "head i*G + g taken for head i of group g",
              [](const Stages& in) {
                return with_heads_from(
                    in, [&](std::int64_t head) { return group_minor(in.config(), head); });
              },
              [](const Stages& in, Stage stage) {
                return has_groups_of_heads(in, stage) &&
                       in.config().n_kv_groups != in.config().heads_per_group();
              })};
}

}  // namespace

std::vector<StageLaw> mixing_laws() {
  std::vector<StageLaw> laws = {
      mixing_law(
          "learned",
          "mixed with the learned gate where a constant was asked for",
          [](const Stages& in) { return in.put_out(in.mixed(in.learned_gate())); },
          [](const Stages& in, Stage) { return in.options().gate_override.has_value(); }),
      with_shares("without_cmp", "the compressed branch left out", {0, 1, 1}, true),
      with_shares("without_sel", "the selected branch left out", {1, 0, 1}, true),
      with_shares("without_win", "the window branch left out", {1, 1, 0}, true),
      with_shares("only_cmp", "the compressed branch alone, without its gate", {1, 0, 0}, false),
      with_shares("only_sel", "the selected branch alone, without its gate", {0, 1, 0}, false),
      with_shares("only_win", "the window branch alone, without its gate", {0, 0, 1}, false),
      with_shares("ungated", "the plain sum of the branches", {1, 1, 1}, false),
      with_shares(
          "averaged", "the branches averaged, one third each", {1.0 / 3, 1.0 / 3, 1.0 / 3}, false)};
  for (const GateOrder& order : gate_orders()) {
    laws.push_back(other_gate(order.name, order.about, [order](const Tensor& gate) {
      return reordered(gate, order.order);
    }));
  }
  return joined({laws, head_order_laws()});
}

std::vector<StageLaw> layout_laws() {
  // Values that are read as heads are heads_reshaped in projection_laws.
  return {
      layout("rows_as_heads",
             "[B,S,n,W] in memory read as [B,n,S,W] without a transpose",
             {q, k_raw, k_sel, k_win, k_cmp, v_cmp, o_cmp, o_sel, o_win, gate},
             rows_as_heads),
      layout("heads_as_rows",
             "[B,n,S,W] in memory read as [B,S,n,W] without a transpose",
             {q, k_raw, v_raw, k_sel, v_sel, k_win, v_win, k_cmp, v_cmp, o_cmp, o_sel, o_win, gate},
             heads_as_rows)};
}

}  // namespace oracles
