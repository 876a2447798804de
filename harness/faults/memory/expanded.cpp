// Keys and values that every query head gets a copy of its own of, where the heads of a group share them: the same numbers, and
// as many times the memory as a group has heads. Seen: repeat_interleave before a kernel that knows nothing of groups.
#include "harness/faults/attention/attend_seam.h"
#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using nsa::SeamContext;
using torch::Tensor;

// [B,G,...] -> [B,H,...]
Tensor for_every_head(const SeamContext& seam, const Tensor& of_groups) {
  return of_groups.repeat_interleave(seam.config.heads_per_group(), 1).contiguous();
}

void install_expanded(FaultContext& context) {
  const std::string branch = fault_form(context.request, {"sel", "win", "cmp"});
  const auto expanded = [&context](const auto& inner) {
    return [inner, &context](const SeamContext& seam,
                             const Tensor& q_BHSD,
                             const Tensor& k_BGSD,
                             const Tensor& v_BGSD,
                             const auto&... blocks_BGSn) {
      if (!context.holds_now()) return inner(seam, q_BHSD, k_BGSD, v_BGSD, blocks_BGSn...);
      context.fired();
      return inner(seam,
                   q_BHSD,
                   for_every_head(seam, k_BGSD),
                   for_every_head(seam, v_BGSD),
                   for_every_head(seam, blocks_BGSn)...);
    };
  };
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    wrap_attend(seams, "attend_" + branch, expanded);
  });
}

}  // namespace

Faults faults_of_expanded() {
  return {{"kv_expanded",
           "keys and values are materialised for every query head",
           {"layers", "rank", "step", "form"},
           install_expanded,
           {"sel", "win", "cmp"}}};
}

}  // namespace harness
