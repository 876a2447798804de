// The trials of kind `kernel`: the calls that a kernel of the user's own is judged by. They are drawn by the controller,
// before the process that runs the kernel exists, and lie in the case's folder as safetensors files, one a trial:
//   attend_*  q [B,H,S,D], k [B,G,K,D], v [B,G,K,V], do [B,H,S,V] in the case's type, and of attend_sel
//             blocks [B,G,S,n] (I64), ascending, then -1
//   score     q and k
//   attention q; k and v, or k_cmp, v_cmp, k_sel, v_sel, k_win, v_win, all of tokens; gates [B,H,S,3] of cmp, sel
//             and win; do; and of external picks blocks
//   select    scores [B,G,S,N], zero for blocks that begin after the query
// K are tokens, of attend_cmp and score compressed tokens.
// Metadata: trial (its name), calls (how often the kernel is called with it), gaps (1: tensors with NaNs between rows), and
// what ties it to an earlier trial: `perturbed_of` and `first` (the same up to position `first`, other numbers from there
// on, and no gradient comes in there), `alone_of` (the last sequence of that batch, alone).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/evidence/rows.h"
#include "harness/scenario/scenario.h"

namespace harness {

inline constexpr const char* kTrialInputs = "kernel_trial";
inline constexpr const char* kTrialsFolder = "trials";
inline constexpr const char* kGaps = "gaps";  // NaNs lie between the rows of its inputs

struct KernelTrial {
  std::string name;
  std::string inputs;     // normal, large_logits, integers, one_hot, equal_keys, ties, crowded
  std::string gate = {};  // of attention: cmp, sel or win alone; or drawn
  std::int64_t batch = 1;
  std::int64_t length = 1;
  bool gaps = false;
  int perturbed_of = -1;
  std::int64_t first = 0;
  int alone_of = -1;
  int calls = 1;
};

// In a fixed order; a trial comes after those that it is tied to.
[[nodiscard]] std::vector<KernelTrial> kernel_trials(const Scenario& scenario);

// Writes them into the case's folder. The rows say where they lie; `layer` counts the trials.
// Throws: nsa::Error where a file cannot be written.
[[nodiscard]] std::vector<Artefact> write_trials(const Scenario& scenario,
                                                 const std::string& folder);

}  // namespace harness
