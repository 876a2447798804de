// One case of the attention kernels and its inputs, as numbers in float64 that the element type holds exactly.
// Arrays of a sequence: heads of a group are [G,h,S,D], keys [G,S,D], row after row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsa/kernels/branches.h"
#include "oracles/attention/config.h"
#include "oracles/tensor.h"

namespace judge {

using Numbers = std::vector<double>;

enum class Pattern { normal, sharp, ties, integers, one_hot, equal_keys };
// How tensors lie in memory: [B,H,S,D]; [B,S,H,D]; a slice of wider rows with gaps between heads, positions and sequences.
enum class Layout { heads_first, positions_first, with_gaps };

struct Case {
  std::string name;
  nsa::kernels::Problem problem;
  std::vector<std::int64_t> lengths;  // of the sequences
  Pattern pattern = Pattern::normal;
  Layout layout = Layout::positions_first;
  std::uint64_t seed = 1;
  bool backward = true;
  // Query positions that truth is computed for (empty: all); d_o is zero at all others.
  std::vector<std::int64_t> rows;
};

// Fills batch, length and tokens of the problem from `lengths`.
void settle(Case& one);

double rounded(double value, nsa::kernels::Element element);

struct Sequence {
  std::int64_t length = 0;
  Numbers q, d_o;
  Numbers k_raw, v_raw, k_sel, v_sel, k_win, v_win;
  Numbers gates;  // [G|H,S,3]
};

struct CaseInputs {
  std::vector<Sequence> sequences;
  Numbers k_conv, v_conv;  // [D,l]
};

CaseInputs make_inputs(const Case& one);

oracles::AttentionConfig config_of(const nsa::kernels::Problem& p);

// Everything that an implementation gives for one sequence.
struct Outcome {
  Numbers k_cmp, v_cmp;               // [G,C,.]
  Numbers lse_cmp, lse_sel, lse_win;  // [G,h,S]
  Numbers o_cmp, o_sel, o_win, o;     // [G,h,S,d_v]
  std::vector<std::int64_t> blocks;   // [G,S,n]
  Numbers p_grp;                      // [G,S,N of the longest sequence]; empty where not recorded
  Numbers d_q;
  Numbers d_k_raw, d_v_raw, d_k_sel, d_v_sel, d_k_win, d_v_win;
  Numbers d_gates;
};
struct AllOutcomes {
  std::vector<Outcome> sequences;
  Numbers d_k_conv, d_v_conv;
};

}  // namespace judge
