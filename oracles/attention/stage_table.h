// The stages of one attention layer, one row each: what every part of the product knows of them. A new stage is a row here and its
// formula in stages.cpp. Legend as in attention.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace oracles {

// In the order of computation: each comes after its inputs.
enum class Stage {
  q,      // [B,G,h,R,D] rotated
  k_raw,  // [B,G,S,D] of the compressed branch: rotated, before compression
  v_raw,  // [B,G,S,V]
  k_sel,  // [B,G,S,D] rotated
  v_sel,  // [B,G,S,V]
  k_win,
  v_win,
  k_cmp,   // [B,G,C,D]
  v_cmp,   // [B,G,C,V]
  p_grp,   // [B,G,R,N]
  blocks,  // [B,G,R,n_sel] the numbers of the blocks, ascending, then -1
  o_cmp,   // [B,G,h,R,V]
  o_sel,
  o_win,
  gate,  // [B,G,R,3] or, for head_sigmoid, [B,G,h,R,3]
  y      // [B,R,E]
};

class StageSet {
 public:
  constexpr StageSet(std::initializer_list<Stage> stages) {
    for (const Stage stage : stages) add(stage);
  }
  constexpr void add(StageSet others) { bits_ |= others.bits_; }
  constexpr void add(Stage stage) { bits_ |= 1U << static_cast<unsigned>(stage); }
  [[nodiscard]] constexpr bool holds(Stage stage) const {
    return (bits_ >> static_cast<unsigned>(stage) & 1U) != 0;
  }
  [[nodiscard]] constexpr bool meets(StageSet other) const { return (bits_ & other.bits_) != 0; }

 private:
  std::uint32_t bits_ = 0;
};

// What a tensor has rows of.
enum class RowsOf { queries, tokens, compressed };

// The longest sum on the way from the layer's input to a tensor. How many terms it has is the ceilings' to say.
enum class LongestSum { projected, cmp, sel, win, gate, y };

struct StageRow {
  Stage stage;
  std::string_view tensor;  // as records and golden files call it
  std::string_view op;      // what computes it
  std::string_view branch;  // "" where it belongs to all
  RowsOf rows;
  LongestSum sum;
  std::string_view weights;  // how the names of its weights begin; "" for none
  bool of_x;                 // made of the layer's input, too
  StageSet made_of;          // in some configuration
};

inline constexpr std::array kStageTable = [] {
  using enum Stage;
  using enum RowsOf;
  using Sum = LongestSum;
  return std::array{
      StageRow{q, "q", "rope", "", queries, Sum::projected, "W_Q", true, {}},
      StageRow{k_raw, "k_raw", "rope", "cmp", tokens, Sum::projected, "W_K_cmp", true, {}},
      StageRow{v_raw, "v_raw", "project", "cmp", tokens, Sum::projected, "W_V_cmp", true, {}},
      StageRow{k_sel, "k_sel", "rope", "sel", tokens, Sum::projected, "W_K_sel", true, {}},
      StageRow{v_sel, "v_sel", "project", "sel", tokens, Sum::projected, "W_V_sel", true, {}},
      StageRow{k_win, "k_win", "rope", "win", tokens, Sum::projected, "W_K_win", true, {}},
      StageRow{v_win, "v_win", "project", "win", tokens, Sum::projected, "W_V_win", true, {}},
      StageRow{k_cmp, "k_cmp", "compress", "cmp", compressed, Sum::cmp, "phi_k", false, {k_raw}},
      StageRow{v_cmp, "v_cmp", "compress", "cmp", compressed, Sum::cmp, "phi_v", false, {v_raw}},
      StageRow{p_grp, "p_grp", "score", "", queries, Sum::cmp, "", false, {q, k_cmp}},
      StageRow{blocks, "blocks", "select", "", queries, Sum::cmp, "", false, {p_grp}},
      StageRow{
          o_cmp, "o_cmp", "attend_cmp", "cmp", queries, Sum::cmp, "", false, {q, k_cmp, v_cmp}},
      StageRow{o_sel,
               "o_sel",
               "attend_sel",
               "sel",
               queries,
               Sum::sel,
               "",
               false,
               {q, k_sel, v_sel, blocks}},
      StageRow{
          o_win, "o_win", "attend_win", "win", queries, Sum::win, "", false, {q, k_win, v_win}},
      StageRow{gate, "gate", "gate", "", queries, Sum::gate, "gate", true, {q}},
      StageRow{y, "y", "attention", "", queries, Sum::y, "out", false, {o_cmp, o_sel, o_win, gate}},
  };
}();

constexpr const StageRow& row_of(Stage stage) {
  return kStageTable[static_cast<std::size_t>(stage)];
}
constexpr std::string_view stage_name(Stage stage) {
  return row_of(stage).tensor;
}
inline std::string name_of(const StageRow& row) {
  return std::string(row.tensor);
}
constexpr std::optional<Stage> stage_named(std::string_view tensor) {
  for (const StageRow& row : kStageTable) {
    if (row.tensor == tensor) return row.stage;
  }
  return std::nullopt;
}
inline std::span<const Stage> all_stages() {
  static constexpr auto kStages = [] {
    std::array<Stage, kStageTable.size()> stages{};
    std::transform(kStageTable.begin(), kStageTable.end(), stages.begin(), [](const StageRow& row) {
      return row.stage;
    });
    return stages;
  }();
  return kStages;
}
constexpr bool is_stage_op(std::string_view op) {
  return std::any_of(
      kStageTable.begin(), kStageTable.end(), [&](const StageRow& row) { return row.op == op; });
}

// One weight times the layer's input, heads apart.
constexpr bool is_projected(const StageRow& row) {
  return row.of_x && row.weights.starts_with("W_");
}
// Of the choice of blocks, which no gradient passes and which is judged exactly.
constexpr bool is_of_choice(const StageRow& row) {
  return row.op == "score" || row.op == "select";
}
// Is an output of the layer, or what outputs are multiplied by: they share one scale.
constexpr bool is_output(const StageRow& row) {
  return row.stage >= Stage::o_cmp;
}
// All that a stage is made of. What is attended to is given, so that only the choice itself is made of scores.
constexpr StageSet all_before(Stage stage) {
  StageSet all = row_of(stage).made_of;
  for (auto at = static_cast<std::size_t>(stage); at-- > 0;) {
    const StageRow& row = kStageTable[at];
    const bool is_given = is_of_choice(row) && !is_of_choice(row_of(stage));
    if (all.holds(row.stage) && !is_given) all.add(row.made_of);
  }
  return all;
}
// The axis of the rows in a recorded tensor, heads or groups before it; -1 of compressed tokens, which are in axis 2.
constexpr int row_axis_of(const StageRow& row) {
  return row.stage == Stage::y ? 1 : row.rows == RowsOf::compressed ? -1 : 2;
}

}  // namespace oracles
