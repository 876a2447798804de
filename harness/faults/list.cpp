#include "harness/faults/list.h"

#include "harness/faults/faults.h"
#include "nsa/base/error.h"

namespace harness {

const std::vector<Fault>& all_faults() {
  static const std::vector<Fault> faults = {
      adam_eps_underflow(),
      average_missing(),
      averaged_twice(),
      bf16_params(),
      bypass_wrapper(),
      data_exhausted(),
      double_rope(),
      drop_partial_block(),
      dtype_promoted(),
      empty_row_nan(),
      eq9_shift(),
      eq9_sign(),
      finite_sentinel(),
      first_key(),
      flag_not_routed(),
      flag_or_default(),
      flat_q_rope(),
      forced_dedup(),
      fp16_params(),
      fused_gate_ignores_override(),
      gate_collapsed(),
      gate_zero_init(),
      gc_autocast(),
      gc_late_binding(),
      gc_nested(),
      gc_pair(),
      gc_selection_flip(),
      gpu_fault(),
      head_group_off_by_one(),
      heads_scrambled(),
      hook_dropped(),
      hook_lost(),
      inplace_pack(),
      kcmp_detached(),
      kv_expanded(),
      leak_per_step(),
      loader_raises(),
      loader_repeats(),
      lr_floor(),
      lr_microsteps(),
      mask_absent_short(),
      mask_polarity(),
      missing_dk_tail(),
      no_learning(),
      no_sync_misplaced(),
      noncausal_pcmp(),
      phi_v_wrong(),
      random_local_data(),
      ranges_mutated(),
      ranges_oob(),
      rank_graph(),
      rank_killed(),
      rank_stopped(),
      resume_weights_only(),
      rope_scale_ignored(),
      same_data(),
      scaler_skips(),
      sched_on_skip(),
      score_bf16(),
      score_cubed_fp16(),
      shared_kv(),
      silent_fallback(),
      slow_loader(),
      state_diverged(),
      static_accum(),
      static_no_delay(),
      stats_sync(),
      tie_bias(),
      uninit_buffer(),
      unshifted_labels(),
      window_trim_leak(),
      wrong_dv_scale(),
      zero_grad_keys(),
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
