// Wrong lists of blocks. Seen: only complete blocks were candidates, so the current one was never read; a bias of 1e-8 a
// block to "break ties"; forced blocks that entered the list twice; an index past the query that the kernel clamped; a
// kernel's wrapper that clamped the caller's list in place; slots behind the last block that entered the softmax.
#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

struct Choice {  // what `select` was given and gave
  const nsa::SeamContext& seam;
  const Tensor& p_grp_BGSN;
  const Tensor& right_BGSn;
  const decltype(nsa::AttentionSeams::select)& select;

  [[nodiscard]] Tensor current_S1() const {
    return query_positions(seam, right_BGSn, right_BGSn.size(2)).floor_divide(seam.config.l_sel);
  }
};

using ChoiceLaw = Tensor (*)(const Choice&);

template <ChoiceLaw kLaw>
void install_blocks(FaultContext& context) {
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    seams.select = [inner = seams.select, &context](const nsa::SeamContext& seam,
                                                    const Tensor& p_grp_BGSN) {
      const Tensor right_BGSn = inner(seam, p_grp_BGSN);
      if (!context.holds_now()) return right_BGSn;
      const Tensor wrong_BGSn = kLaw({seam, p_grp_BGSN, right_BGSn, inner});
      const Tensor struck_BGS =
          strike(context, seam, differing_rows(wrong_BGSn, right_BGSn, right_BGSn.size(1)));
      return replaced(struck_BGS, wrong_BGSn, right_BGSn);
    };
  });
}

// Ascending, then -1.
Tensor sorted_list(const Tensor& blocks, const Tensor& unused) {
  constexpr std::int64_t kLast = std::int64_t{1} << 40;
  const Tensor sorted = std::get<0>(blocks.masked_fill(unused, kLast).sort(-1));
  return sorted.masked_fill(sorted.eq(kLast), -1);
}

// ---- the laws ------------------------------------------------------------------------------------

Tensor without_partial(const Choice& at) {
  const Tensor t_S1 = query_positions(at.seam, at.right_BGSn, at.right_BGSn.size(2));
  const Tensor partial_S1 = (t_S1 + 1).remainder(at.seam.config.l_sel).ne(0);
  const Tensor dropped = at.right_BGSn.eq(at.current_S1()).logical_and(partial_S1);
  return sorted_list(at.right_BGSn, dropped.logical_or(at.right_BGSn.lt(0)));
}

Tensor with_bias(const Choice& at) {
  constexpr double kBias = 1e-8;
  const Tensor bias_N = torch::arange(at.p_grp_BGSN.size(3), at.p_grp_BGSN.options()) * kBias;
  return at.select(unseen(at.seam), at.p_grp_BGSN + bias_N);
}

// The first blocks and the last ones ending with the current one, clamped to the sequence's begin and not made unique. Early
// on these are all the blocks there are.
Tensor forced_twice(const Choice& at) {
  const nsa::ModelConfig& config = at.seam.config;
  const auto options = at.right_BGSn.options();
  const Tensor current_S1 = at.current_S1();
  const Tensor first_SI =
      torch::arange(config.init_blocks, options).expand({current_S1.size(0), -1});
  const Tensor last_SL = (current_S1 - torch::arange(config.local_blocks, options)).clamp_min(0);
  const Tensor forced_SF = torch::cat({first_SI, last_SL}, 1);
  const Tensor list_SF = sorted_list(forced_SF, forced_SF.gt(current_S1));
  const std::int64_t room = config.n_sel - list_SF.size(1);
  const Tensor list_Sn = torch::constant_pad_nd(list_SF, {0, room}, -1);
  const Tensor early_S1 = current_S1.lt(config.init_blocks + config.local_blocks - 1);
  return torch::where(early_S1, list_Sn, at.right_BGSn);
}

// The next block in the first place that is not used.
Tensor with_next(const Choice& at) {
  const Tensor place_n = torch::arange(at.right_BGSn.size(3), at.right_BGSn.options());
  const Tensor used_BGS1 = at.right_BGSn.ge(0).sum(-1, /*keepdim=*/true);
  return torch::where(place_n.eq(used_BGS1), at.current_S1() + 1, at.right_BGSn);
}

// ---- ranges_mutated ------------------------------------------------------------------------------

void install_mutated(FaultContext& context) {
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context, seams, "sel", [&context](const Attended& at, const Tensor& right_BHSD) {
      Tensor callers_BGSn = at.blocks_BGSn;
      const Tensor clamped_BGSn = callers_BGSn.clamp_min(0);
      const Tensor struck_BGS = strike(
          context, at.seam, differing_rows(clamped_BGSn, callers_BGSn, callers_BGSn.size(1)));
      callers_BGSn.copy_(replaced(struck_BGS, clamped_BGSn, callers_BGSn));
      return right_BHSD;
    });
  });
}

// ---- invalid_pick_unmasked -----------------------------------------------------------------------

// Empty slots as they read where -1 is clamped to 0: as block 0 again, or as so many times its first key.
void install_empty_slots(FaultContext& context) {
  const bool whole_block = fault_form(context.request, {"block_zero", "key_zero"}) == "block_zero";
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(
        context,
        seams,
        "sel",
        [whole_block, &context](const Attended& at, const Tensor& right_BHSD) {
          if (!context.holds_now()) return right_BHSD;
          const std::int64_t block = at.seam.config.l_sel;
          const std::int64_t heads = at.q_BHSD.size(1);
          const Tensor empty_BGS1 = at.blocks_BGSn.lt(0).sum(-1, /*keepdim=*/true);
          const Tensor key_K = key_positions(at);
          const Tensor first_SK =
              key_K.lt(whole_block ? block : 1)
                  .logical_and(key_K.le(query_positions(at.seam, key_K, at.q_BHSD.size(2))));
          const Tensor listed_BGSK = right_keys(at);
          // How often each key is read: n times the weight of one is its logit plus log n.
          const Tensor times_BGSK =
              listed_BGSK.to(torch::kFloat) + empty_BGS1 * first_SK * (whole_block ? 1 : block);
          const Tensor logits_BHSK =
              scaled_logits(at.q_BHSD, at.k_BGKD) + to_heads(times_BGSK.log(), heads);
          const Tensor wrong_BHSD = weighted_values(logits_BHSK.softmax(-1), at.v_BGKD);
          const Tensor differs_BGS = differing_rows(wrong_BHSD, right_BHSD, at.k_BGKD.size(1));
          return replaced(strike(context, at.seam, differs_BGS), wrong_BHSD, right_BHSD);
        });
  });
}

}  // namespace

Faults faults_of_selected_lists() {
  return {{"drop_partial_block",
           "the current block is not selected while it is incomplete",
           kRowsOfLayers,
           install_blocks<without_partial>},
          {"tie_bias",
           "ties are broken by a bias of 1e-8 a block",
           kRowsOfLayers,
           install_blocks<with_bias>},
          {"forced_dedup",
           "forced blocks are listed twice early on",
           kRowsOfLayers,
           install_blocks<forced_twice>},
          {"ranges_oob",
           "the list of blocks holds one past the query",
           kRowsOfLayers,
           install_blocks<with_next>},
          {"ranges_mutated",
           "the selected branch clamps the caller's list of blocks in place",
           kRowsOfLayers,
           install_mutated},
          {"invalid_pick_unmasked",
           "slots behind the last block of a list enter the softmax",
           kFormsOfRows,
           install_empty_slots,
           {"block_zero", "key_zero"}}};
}

}  // namespace harness
