// What wrong laws of the attention share: where they are put in, the rows in which they hold, and attention over any set of
// keys. Shape letters as in nsa/seams/seams.h, and K keys of a branch: positions, or compressed tokens.
#pragma once

#include <functional>
#include <string>

#include "harness/worker/fault.h"
#include "nsa/seams/seams.h"
#include "nsa/torch.h"

namespace harness {

// ---- where ---------------------------------------------------------------------------------------

// Calls `put` with the seams of every layer that the fault is for, where it is for this rank.
void for_fault_layers(FaultContext& context, const std::function<void(nsa::AttentionSeams&)>& put);

// The same context with counters that nobody reads: for a second run beside the one that counts.
[[nodiscard]] nsa::SeamContext unseen(const nsa::SeamContext& seam);

// ---- in which rows -------------------------------------------------------------------------------

// The (batch, group, row) in which the wrong law holds: those drawn of `differs_BGS`, in which it is
// another one than the right law, and with strength 1 all of them. At least one is of `shows_BGS`, in
// which that can be seen; those are counted as fired. None where nothing can be seen.
[[nodiscard]] torch::Tensor strike(const FaultContext& context,
                                   const nsa::SeamContext& seam,
                                   const torch::Tensor& differs_BGS,
                                   const torch::Tensor& shows_BGS);
[[nodiscard]] torch::Tensor strike(const FaultContext& context,
                                   const nsa::SeamContext& seam,
                                   const torch::Tensor& differs_BGS);

// [B,G,S]: rows in which two tensors [B,G,S,D] or [B,H,S,D] have another value, in any head of the group.
[[nodiscard]] torch::Tensor differing_rows(const torch::Tensor& a,
                                           const torch::Tensor& b,
                                           std::int64_t groups);

// `wrong` in the rows struck, `right` in all others; both [B,G,S,D] or [B,H,S,D].
[[nodiscard]] torch::Tensor replaced(const torch::Tensor& struck_BGS,
                                     const torch::Tensor& wrong,
                                     const torch::Tensor& right);

// ---- attention over any keys -----------------------------------------------------------------------

struct Attended {  // what an attend seam was given
  const nsa::SeamContext& seam;
  std::string branch;  // cmp, sel, win
  torch::Tensor q_BHSD;
  torch::Tensor k_BGKD;
  torch::Tensor v_BGKD;
  torch::Tensor blocks_BGSn;  // of sel
};

// Puts `change` behind the attend seam of a branch; it gets the right output, which was counted.
using AttendChange = std::function<torch::Tensor(const Attended&, const torch::Tensor& right_BHSD)>;
void change_attend(FaultContext& context,
                   nsa::AttentionSeams& seams,
                   const std::string& branch,
                   const AttendChange& change);

[[nodiscard]] torch::Tensor query_positions(const nsa::SeamContext& seam,
                                            const torch::Tensor& like,
                                            std::int64_t rows);  // [S,1]
[[nodiscard]] torch::Tensor key_positions(const Attended& at);   // [K]

// [B,G,S,K]: the keys of the branch; of sel without the causal mask, the tokens of the chosen blocks.
[[nodiscard]] torch::Tensor right_keys(const Attended& at);
[[nodiscard]] torch::Tensor keys_of_blocks(const Attended& at);

// [B,H,S,K], in float32 where q and k are narrower
[[nodiscard]] torch::Tensor scaled_logits(const torch::Tensor& q_BHSD, const torch::Tensor& k_BGKD);
// [B,H,S,D], in the type of v, rounded once
[[nodiscard]] torch::Tensor weighted_values(const torch::Tensor& p_BHSK,
                                            const torch::Tensor& v_BGKD);
[[nodiscard]] torch::Tensor to_heads(const torch::Tensor& x_BGSK, std::int64_t heads);

// softmax over the keys listed, times the values; zeros in rows without any.
[[nodiscard]] torch::Tensor attend_over(const Attended& at, const torch::Tensor& keys_BGSK);

}  // namespace harness
