#include "harness/faults/list.h"

#include "harness/faults/faults.h"
#include "nsa/base/error.h"

namespace harness {

const std::vector<Fault>& all_faults() {
  static const std::vector<Fault> faults = {
      adam_eps_underflow(), averaged_twice(),     bf16_params(),
      double_rope(),        drop_partial_block(), dtype_promoted(),
      empty_row_nan(),      eq9_shift(),          eq9_sign(),
      finite_sentinel(),    first_key(),          flat_q_rope(),
      forced_dedup(),       fp16_params(),        fused_gate_ignores_override(),
      gate_collapsed(),     gate_zero_init(),     head_group_off_by_one(),
      heads_scrambled(),    kcmp_detached(),      mask_absent_short(),
      mask_polarity(),      noncausal_pcmp(),     phi_v_wrong(),
      ranges_mutated(),     ranges_oob(),         rank_graph(),
      rank_killed(),        rank_stopped(),       rope_scale_ignored(),
      same_data(),          score_bf16(),         score_cubed_fp16(),
      shared_kv(),          tie_bias(),           uninit_buffer(),
      window_trim_leak(),
  };
  return faults;
}

const Fault& fault_named(const std::string& name) {
  for (const Fault& fault : all_faults()) {
    if (fault.name == name) {
      return fault;
    }
  }
  throw nsa::Error("fault: found '" + name + "', which this worker does not have");
}

}  // namespace harness
