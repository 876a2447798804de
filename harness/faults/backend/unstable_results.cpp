// What another call, or other neighbours in the batch, change. Seen: the first call of a kernel that adds to its output runs
// every configuration of its tuner on the live buffer; ties that atomics break as they come; rows whose split of the keys
// depends on what else is in the batch; ranks with the same inputs that choose other blocks.
#include <map>
#include <memory>

#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

using Calls = std::map<int, std::int64_t>;  // by layer

// ---- autotune_pollutes ---------------------------------------------------------------------------

void install_tuner(FaultContext& context) {
  const auto calls = std::make_shared<Calls>();
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context,
                  seams,
                  fault_form(context.request, {"sel", "win", "cmp"}),
                  [calls, &context](const Attended& at, const Tensor& right_BHSD) {
                    if ((*calls)[at.seam.layer]++ > 0) return right_BHSD;
                    // One configuration was tried before the one that is kept.
                    const Tensor twice_BHSD = right_BHSD + right_BHSD.detach();
                    const std::int64_t groups = at.k_BGKD.size(1);
                    const Tensor differs_BGS = differing_rows(twice_BHSD, right_BHSD, groups);
                    return replaced(strike(context, at.seam, differs_BGS), twice_BHSD, right_BHSD);
                  });
  });
}

// ---- select_nondeterministic ---------------------------------------------------------------------

// In every second call ties go to the later block.
void install_race(FaultContext& context) {
  constexpr double kBias = 1e-8;
  const auto calls = std::make_shared<Calls>();
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    seams.select = [inner = seams.select, calls, &context](const nsa::SeamContext& seam,
                                                           const Tensor& p_grp_BGSN) {
      const Tensor right_BGSn = inner(seam, p_grp_BGSN);
      if ((*calls)[seam.layer]++ % 2 == 0) return right_BGSn;
      const Tensor bias_N = torch::arange(p_grp_BGSN.size(3), p_grp_BGSN.options()) * kBias;
      const Tensor other_BGSn = inner(unseen(seam), p_grp_BGSN + bias_N);
      const Tensor differs_BGS = differing_rows(other_BGSn, right_BGSn, right_BGSn.size(1));
      return replaced(strike(context, seam, differs_BGS), other_BGSn, right_BGSn);
    };
  });
}

// ---- select_rank_differs -------------------------------------------------------------------------

// One rank takes the blocks with the lowest scores.
void install_other_rank(FaultContext& context) {
  if (!fault_on_one_rank(context.request, context.rank, context.world)) return;
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    seams.select = [inner = seams.select, &context](const nsa::SeamContext& seam,
                                                    const Tensor& p_grp_BGSN) {
      const Tensor right_BGSn = inner(seam, p_grp_BGSN);
      if (!context.holds_now()) return right_BGSn;
      const Tensor other_BGSn = inner(unseen(seam), -p_grp_BGSN);
      const Tensor differs_BGS = differing_rows(other_BGSn, right_BGSn, right_BGSn.size(1));
      return replaced(strike(context, seam, differs_BGS), other_BGSn, right_BGSn);
    };
  });
}

// ---- batch_variant -------------------------------------------------------------------------------

// From three sequences on, a part of the result is the neighbour's.
void install_neighbour(FaultContext& context) {
  constexpr double kShare = 0.02;
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    change_attend(context,
                  seams,
                  fault_form(context.request, {"win", "sel", "cmp"}),
                  [&context](const Attended& at, const Tensor& right_BHSD) {
                    if (right_BHSD.size(0) < 3) return right_BHSD;
                    const Tensor mixed_BHSD =
                        right_BHSD + kShare * (right_BHSD.roll(1, 0) - right_BHSD);
                    const std::int64_t groups = at.k_BGKD.size(1);
                    const Tensor differs_BGS = differing_rows(mixed_BHSD, right_BHSD, groups);
                    return replaced(strike(context, at.seam, differs_BGS), mixed_BHSD, right_BHSD);
                  });
  });
}

}  // namespace

Faults faults_of_unstable_results() {
  return {{"autotune_pollutes",
           "the first call adds to what the tuner left in the output",
           kFormsOfRows,
           install_tuner,
           {"sel", "win", "cmp"}},
          {"select_nondeterministic",
           "ties between blocks are broken otherwise in every second call",
           kRowsOfLayers,
           install_race},
          {"select_rank_differs",
           "one rank chooses other blocks than its peers from the same scores",
           kRowsOfLayers,
           install_other_rank},
          {"batch_variant",
           "a sequence's result depends on its neighbours in the batch",
           kFormsOfRows,
           install_neighbour,
           {"win", "sel", "cmp"}}};
}

}  // namespace harness
