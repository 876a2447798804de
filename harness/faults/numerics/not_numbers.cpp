// Where NaN comes from. Seen: a softmax over no key at all, whose NaN is masked in the forward and multiplied by zero in the
// backward; kernels that leave the rows of the last incomplete tile of an output, or of dK, or those of a sequence whose
// boundary is missing, as the allocator gave them.
#include <limits>

#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

// ---- empty_row_nan -------------------------------------------------------------------------------

// Of the compressed branch: its first l - 1 rows see no token.
Tensor softmax_of_nothing(FaultContext& context,
                          const Attended& at,
                          const Tensor& right_BHSD,
                          bool masked_after) {
  if (at.k_BGKD.size(2) == 0) return right_BHSD;
  const std::int64_t heads = at.q_BHSD.size(1);
  const Tensor keys_BGSK = right_keys(at);
  const Tensor struck_BGS = strike(context, at.seam, keys_BGSK.any(-1).logical_not());
  const Tensor struck_BHS1 = to_heads(struck_BGS.unsqueeze(-1), heads);
  const Tensor p_BHSK = scaled_logits(at.q_BHSD, at.k_BGKD)
                            .masked_fill(to_heads(keys_BGSK.logical_not(), heads),
                                         std::numeric_limits<float>::lowest())
                            .masked_fill(struck_BHS1, -std::numeric_limits<double>::infinity())
                            .softmax(-1);
  Tensor o_BHSD = weighted_values(p_BHSK, at.v_BGKD);
  if (masked_after) o_BHSD = o_BHSD.masked_fill(struck_BHS1, 0.0);
  return torch::where(struck_BHS1, o_BHSD, right_BHSD);
}

void install_empty_row(FaultContext& context) {
  const bool masked_after = fault_form(context.request, {"forward", "backward"}) == "backward";
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context,
                  seams,
                  "cmp",
                  [masked_after, &context](const Attended& at, const Tensor& right_BHSD) {
                    return softmax_of_nothing(context, at, right_BHSD, masked_after);
                  });
  });
}

// ---- uninit_buffer -------------------------------------------------------------------------------

constexpr std::int64_t kTile = 64;  // rows that a kernel writes at once

// Rows of the last tile, when that is incomplete.
Tensor slack_rows(const nsa::SeamContext& seam, const Tensor& k_BGSD) {
  const std::int64_t rows = k_BGSD.size(2);
  const Tensor t_S = query_positions(seam, k_BGSD, rows).squeeze(1);
  return t_S.ge(rows / kTile * kTile).expand({k_BGSD.size(0), k_BGSD.size(1), -1});
}

void leave_output(FaultContext& context, nsa::AttentionSeams& seams) {
  change_attend(context, seams, "sel", [&context](const Attended& at, const Tensor& right_BHSD) {
    const Tensor struck_BGS = strike(context, at.seam, slack_rows(at.seam, at.k_BGKD));
    return replaced(struck_BGS, torch::empty_like(right_BHSD.detach()), right_BHSD);
  });
}

// An alias of k whose gradient is copied into a buffer up to the last whole tile.
Tensor with_dk_left(FaultContext& context, const nsa::SeamContext& seam, const Tensor& k_BGSD) {
  const Tensor alias_BGSD = k_BGSD.view_as(k_BGSD);
  const Tensor slack_BGS = slack_rows(seam, k_BGSD);
  alias_BGSD.register_hook([&context, seam = unseen(seam), slack_BGS](const Tensor& dk_BGSD) {
    const Tensor struck_BGS = strike(context, seam, slack_BGS);
    return replaced(struck_BGS, torch::empty_like(dk_BGSD), dk_BGSD);
  });
  return alias_BGSD;
}

void leave_dk(FaultContext& context, nsa::AttentionSeams& seams) {
  seams.attend_sel = [inner = seams.attend_sel, &context](const nsa::SeamContext& seam,
                                                          const Tensor& q_BHSD,
                                                          const Tensor& k_BGSD,
                                                          const Tensor& v_BGSD,
                                                          const Tensor& blocks_BGSn) {
    const bool left = context.holds_now() && k_BGSD.requires_grad();
    return inner(
        seam, q_BHSD, left ? with_dk_left(context, seam, k_BGSD) : k_BGSD, v_BGSD, blocks_BGSn);
  };
}

// Sequences of a list whose last boundary (cu_seqlens) was never written: the kernel is not told of the last one, and the
// window branch's output keeps its rows as the allocator gave them. The boundary itself stays right, since a kernel that
// read a wrong one would read beyond its buffers.
void leave_sequence(FaultContext& context, nsa::AttentionSeams& seams) {
  change_attend(context, seams, "win", [&context](const Attended& at, const Tensor& right_BHSD) {
    const auto sequences = at.k_BGKD.size(0);
    const Tensor last_BGS =
        torch::arange(sequences, torch::dtype(torch::kLong).device(at.k_BGKD.device()))
            .eq(sequences - 1)
            .view({-1, 1, 1})
            .expand({-1, at.k_BGKD.size(1), right_BHSD.size(2)});
    const Tensor struck_BGS = strike(context, at.seam, last_BGS);
    return replaced(struck_BGS, torch::empty_like(right_BHSD.detach()), right_BHSD);
  });
}

const std::vector<std::string> kUninitForms = {"slack_rows", "dk_tail", "cu_seqlens"};

void install_uninit(FaultContext& context) {
  const std::string form = fault_form(context.request, kUninitForms);
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    if (form == "slack_rows") {
      leave_output(context, seams);
    } else if (form == "dk_tail") {
      leave_dk(context, seams);
    } else {
      leave_sequence(context, seams);
    }
  });
}

}  // namespace

Faults faults_of_not_numbers() {
  return {
      {"empty_row_nan",
       "a query of the compressed branch that sees no token gives NaN",
       kFormsOfRows,
       install_empty_row,
       {"forward", "backward"}},
      {"uninit_buffer",
       "the rows of the last incomplete tile of the selected branch's output, or of its dK, are "
       "never written, or those of the window branch's last sequence",
       kFormsOfRows,
       install_uninit,
       kUninitForms}};
}

}  // namespace harness
