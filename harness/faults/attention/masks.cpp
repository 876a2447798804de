// Wrong key sets. Seen: boolean masks whose True means "hide" in one library and "attend" in the next; short sequences sent
// down a path without a mask; -10000 in place of minus infinity; a window sliced from a cache that had been trimmed already.
#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

// A law that is a set of keys: holds in the rows where the set is another one.
Tensor with_keys(FaultContext& context,
                 const Attended& at,
                 const Tensor& right_BHSD,
                 const Tensor& keys_BGSK) {
  const Tensor struck_BGS = strike(context, at.seam, keys_BGSK.ne(right_keys(at)).any(-1));
  return replaced(struck_BGS, attend_over(at, keys_BGSK), right_BHSD);
}

// ---- mask_polarity -------------------------------------------------------------------------------

constexpr const char* kGathered = "sel_gathered";

// Of all keys of the branch; where those of the chosen blocks were gathered first, of these.
Tensor inverted_keys(const Attended& at, bool gathered) {
  const Tensor others_BGSK = right_keys(at).logical_not();
  return gathered ? others_BGSK.logical_and(keys_of_blocks(at)) : others_BGSK;
}

void install_polarity(FaultContext& context) {
  const std::string form = fault_form(context.request, {"sel", "win", "cmp", kGathered});
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(
        context,
        seams,
        form == kGathered ? "sel" : form,
        [&context, gathered = form == kGathered](const Attended& at, const Tensor& right_BHSD) {
          return with_keys(context, at, right_BHSD, inverted_keys(at, gathered));
        });
  });
}

// ---- mask_absent_short ---------------------------------------------------------------------------

// Shorter sequences take a path of their own, which has no mask.
constexpr std::int64_t kShort = 256;

void install_absent(FaultContext& context) {
  const std::string branch = fault_form(context.request, {"sel", "win", "cmp"});
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context, seams, branch, [&context](const Attended& at, const Tensor& right_BHSD) {
      if (at.seam.first + at.q_BHSD.size(2) > kShort) return right_BHSD;
      const Tensor keys_BGSK =
          at.branch == "sel" ? keys_of_blocks(at) : torch::ones_like(right_keys(at));
      return with_keys(context, at, right_BHSD, keys_BGSK);
    });
  });
}

// ---- finite_sentinel -----------------------------------------------------------------------------

constexpr double kSentinel = -10000.0;

// Of the compressed branch, whose first rows have no key: their softmax is the mean over every token.
Tensor with_sentinel(FaultContext& context, const Attended& at, const Tensor& right_BHSD) {
  const std::int64_t heads = at.q_BHSD.size(1);
  const Tensor allowed_BHSK = to_heads(right_keys(at), heads);
  const Tensor p_BHSK = scaled_logits(at.q_BHSD, at.k_BGKD)
                            .masked_fill(allowed_BHSK.logical_not(), kSentinel)
                            .softmax(-1);
  const Tensor leaks_BHS = p_BHSK.detach().masked_fill(allowed_BHSK, 0.0).gt(0.0).any(-1);
  const std::int64_t groups = at.k_BGKD.size(1);
  const Tensor struck_BGS =
      strike(context, at.seam, leaks_BHS.unflatten(1, {groups, heads / groups}).any(2));
  return replaced(struck_BGS, weighted_values(p_BHSK, at.v_BGKD), right_BHSD);
}

void install_sentinel(FaultContext& context) {
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context, seams, "cmp", [&context](const Attended& at, const Tensor& right_BHSD) {
      return with_sentinel(context, at, right_BHSD);
    });
  });
}

// ---- window_trim_leak ----------------------------------------------------------------------------

// The cache holds the last w positions, and a query still asks for its own ones max(0,t-w+1)..t of it: it gets those that lie
// S - w later. Holds in the rows that then read the future; where nothing is left at those places, the window is right.
Tensor trimmed_window(FaultContext& context, const Attended& at, const Tensor& right_BHSD) {
  const std::int64_t trimmed = at.k_BGKD.size(2) - at.seam.config.w;
  if (trimmed <= 0) return right_BHSD;
  const Tensor t_S1 = query_positions(at.seam, at.q_BHSD, at.q_BHSD.size(2));
  const Tensor u_K = key_positions(at);
  const Tensor place_K = u_K - trimmed;
  const Tensor keys_SK =
      place_K.ge(0).logical_and(place_K.le(t_S1)).logical_and(place_K.gt(t_S1 - at.seam.config.w));
  const Tensor leaks_S = keys_SK.logical_and(u_K.gt(t_S1)).any(-1);
  const std::vector<std::int64_t> lists = {at.k_BGKD.size(0), at.k_BGKD.size(1)};
  const Tensor struck_BGS = strike(context, at.seam, leaks_S.expand({lists[0], lists[1], -1}));
  const Tensor wrong_BHSD = attend_over(at, keys_SK.expand({lists[0], lists[1], -1, -1}));
  return replaced(struck_BGS, wrong_BHSD, right_BHSD);
}

void install_trim(FaultContext& context) {
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context, seams, "win", [&context](const Attended& at, const Tensor& right_BHSD) {
      return trimmed_window(context, at, right_BHSD);
    });
  });
}

}  // namespace

Faults faults_of_masks() {
  return {{"mask_polarity",
           "the mask of a branch lets through what it should hide",
           kFormsOfRows,
           install_polarity,
           {"sel", "win", "cmp", kGathered}},
          {"mask_absent_short",
           "sequences up to 256 are attended without a mask",
           kFormsOfRows,
           install_absent,
           {"sel", "win", "cmp"}},
          {"finite_sentinel",
           "the compressed branch masks with -10000 in place of minus infinity",
           kRowsOfLayers,
           install_sentinel},
          {"window_trim_leak",
           "the window is sliced from a cache that was trimmed already",
           kRowsOfLayers,
           install_trim}};
}

}  // namespace harness
