// The wrong laws of stage_law.h by the kind of their stage, one file each. Internal to the library.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracles/laws/stage_laws.h"

namespace oracles {

std::vector<StageLaw> projection_laws();   // q, raw keys and values
std::vector<StageLaw> rotation_laws();     // q, keys, and the keys that enter the compression
std::vector<StageLaw> compression_laws();  // k_cmp, v_cmp
std::vector<StageLaw> score_laws();        // p_grp, and blocks chosen from such scores
std::vector<StageLaw> choice_laws();       // blocks
std::vector<StageLaw> attend_laws();       // o_cmp, o_sel, o_win
std::vector<StageLaw> layout_laws();       // everything with heads
std::vector<StageLaw> gate_laws();         // gate
std::vector<StageLaw> mixing_laws();       // y

// Queries of the rows [B,G,h,R,D], and keys of all tokens [B,G,S,D], before they are rotated.
Tensor unrotated_queries(const Stages& in);
Tensor unrotated_keys(const Stages& in, Stage stage);

// The place of head i*G + g where g*h + i belongs.
inline std::int64_t group_minor(const AttentionConfig& c, std::int64_t head) {
  return head % c.heads_per_group() * c.n_kv_groups + head / c.heads_per_group();
}

// Conditions that several laws have.
inline bool has_groups(const Stages& in, Stage) {
  return in.config().n_kv_groups > 1;
}
inline bool has_heads_in_groups(const Stages& in, Stage) {
  return in.config().heads_per_group() > 1;
}
inline bool has_groups_of_heads(const Stages& in, Stage stage) {
  return has_groups(in, stage) && has_heads_in_groups(in, stage);
}

// The same law where `makes_sense` holds.
inline StageLaw where(StageLaw law, std::function<bool(const Stages&, Stage)> makes_sense) {
  law.makes_sense = std::move(makes_sense);
  return law;
}

// The blocks that a query at t takes, in any order.
using Choice = std::vector<std::int64_t> (*)(const AttentionConfig&,
                                             std::int64_t t,
                                             std::span<const double> scores_N);
// The choice of every row from such scores: [B,G,R,n_sel], as numbers, ascending, then -1.
Tensor chosen_blocks(const Stages& in, const Tensor& scores_BGRN, Choice choice);
std::vector<std::int64_t> usual_choice(const AttentionConfig& config,
                                       std::int64_t t,
                                       std::span<const double> scores_N);

}  // namespace oracles
