// The trials of kind `kernel`: the calls that a kernel of the user's own is judged by. They are drawn by the controller,
// before the process that runs the kernel exists, and lie in the case's folder as safetensors files, one a trial:
//   attend_*  q [B,H,S,D], k [B,G,K,D], v [B,G,K,V], do [B,H,S,V] in the case's type, and of attend_sel
//             blocks [B,G,S,n] (I64), ascending, then -1
//   score     q and k
//   attention q; k and v, or k_cmp, v_cmp, k_sel, v_sel, k_win, v_win, all of tokens; gates [B,H,S,3] of cmp, sel
//             and win; do; and of external picks blocks
//   select    scores [B,G,S,N], zero for blocks that begin after the query
// K are tokens, of attend_cmp and score compressed tokens.
// Metadata: trial (its name), calls (how often the kernel is called with it), gaps (1: tensors with NaNs between rows),
// widths (d_k and d_v where they are not those of the model: 32x16), rows (positions that are judged, where not all are: no
// gradient comes in elsewhere), and what ties it to an earlier trial: `perturbed_of`, `first` and `sequence` (the same but for
// this sequence of the batch from position `first` on, and no gradient comes in there), `alone_of` (the last sequence of
// that batch, alone).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/evidence/rows.h"
#include "harness/scenario/scenario.h"

namespace harness {

inline constexpr const char* kTrialInputs = "kernel_trial";
inline constexpr const char* kTrialsFolder = "trials";
// A choice of n out of so many times more: what sorts only some of the candidates, or by some of their digits, is wrong there.
inline constexpr std::int64_t kTimesTheList = 16;
inline constexpr const char* kJudgedRows = "rows";  // metadata; so is the next
inline constexpr const char* kWidths = "widths";
inline constexpr const char* kGaps = "gaps";  // NaNs lie between the rows of its inputs

struct KernelTrial {
  std::string name;
  std::string as = {};  // name of the trial that it is tied to and whose numbers it has
  // normal, large_logits, integers, one_hot, equal_keys, ties, crowded, just_held, octave, units
  std::string inputs = "normal";
  std::string gate = {};  // of attention: cmp, sel or win alone; or drawn
  std::int64_t batch = 1;
  std::int64_t length = 1;
  std::int64_t d_k = 0;  // 0: the model's; so is d_v
  std::int64_t d_v = 0;
  std::vector<std::int64_t> rows = {};  // ascending: positions that are judged; none: all are
  bool gaps = false;
  int perturbed_of = -1;
  std::int64_t first = 0;
  std::int64_t sequence = 0;  // of the batch, that is perturbed
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
