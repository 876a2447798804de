// Heads that are not where they belong. Seen: a branch's output reshaped to tokens without the transpose before it; the group
// of a head computed from the head after it.
#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

const std::vector<std::string> kBranches = {"sel", "win", "cmp"};

// ---- heads_scrambled -----------------------------------------------------------------------------

// What [B,H,S,D] is taken for when it is read as [B,S,H,D].
Tensor without_transpose(FaultContext& context, const Attended& at, const Tensor& right_BHSD) {
  const Tensor wrong_BHSD =
      right_BHSD.contiguous()
          .view({right_BHSD.size(0), right_BHSD.size(2), right_BHSD.size(1), right_BHSD.size(3)})
          .transpose(1, 2);
  const Tensor differs_BGS = differing_rows(wrong_BHSD, right_BHSD, at.k_BGKD.size(1));
  return replaced(strike(context, at.seam, differs_BGS), wrong_BHSD, right_BHSD);
}

void install_scrambled(FaultContext& context) {
  const std::string branch = fault_form(context.request, kBranches);
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context, seams, branch, [&context](const Attended& at, const Tensor& right_BHSD) {
      return without_transpose(context, at, right_BHSD);
    });
  });
}

// ---- head_group_off_by_one -----------------------------------------------------------------------

// The last head of each group reads keys and values of the next group, where its own group's queries would.
Tensor of_next_group(FaultContext& context, const Attended& at, const Tensor& right_BHSD) {
  const std::int64_t groups = at.k_BGKD.size(1);
  if (groups == 1) return right_BHSD;
  Attended next = at;
  next.k_BGKD = at.k_BGKD.roll(-1, 1);
  next.v_BGKD = at.v_BGKD.roll(-1, 1);
  const Tensor all_BHSD = attend_over(next, right_keys(at));
  const std::int64_t heads = right_BHSD.size(1);
  const Tensor head_H =
      torch::arange(heads, torch::dtype(torch::kLong).device(right_BHSD.device()));
  const Tensor last_H = (head_H + 1).remainder(heads / groups).eq(0);
  const Tensor wrong_BHSD = torch::where(last_H.view({1, heads, 1, 1}), all_BHSD, right_BHSD);
  const Tensor has_keys_BGS = right_keys(at).any(-1);
  return replaced(strike(context, at.seam, has_keys_BGS), wrong_BHSD, right_BHSD);
}

void install_next_group(FaultContext& context) {
  const std::string branch = fault_form(context.request, kBranches);
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context, seams, branch, [&context](const Attended& at, const Tensor& right_BHSD) {
      return of_next_group(context, at, right_BHSD);
    });
  });
}

}  // namespace

Faults faults_of_heads() {
  return {{"heads_scrambled",
           "a branch's output is reshaped without the transpose",
           kFormsOfRows,
           install_scrambled,
           kBranches},
          {"head_group_off_by_one",
           "the last head of a group reads the next group's keys and values",
           kFormsOfRows,
           install_next_group,
           kBranches}};
}

}  // namespace harness
