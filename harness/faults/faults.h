// The faults' own declarations, one function a file: gives the fault's name, parameters and installer.
#pragma once

#include "harness/worker/fault.h"

namespace harness {

// What most faults of a layer draw: in which layers, on which rank, from which step on, in which share of the rows.
inline const std::vector<std::string> kRowsOfLayers = {"layers", "rank", "step", "strength"};
inline const std::vector<std::string> kFormsOfRows = {"layers", "rank", "step", "strength", "form"};

[[nodiscard]] Fault adam_eps_underflow();
[[nodiscard]] Fault average_missing();
[[nodiscard]] Fault averaged_twice();
[[nodiscard]] Fault bf16_params();
[[nodiscard]] Fault bypass_wrapper();
[[nodiscard]] Fault data_exhausted();
[[nodiscard]] Fault double_rope();
[[nodiscard]] Fault drop_partial_block();
[[nodiscard]] Fault dtype_promoted();
[[nodiscard]] Fault empty_row_nan();
[[nodiscard]] Fault eq9_shift();
[[nodiscard]] Fault eq9_sign();
[[nodiscard]] Fault finite_sentinel();
[[nodiscard]] Fault first_key();
[[nodiscard]] Fault flag_not_routed();
[[nodiscard]] Fault flag_or_default();
[[nodiscard]] Fault flat_q_rope();
[[nodiscard]] Fault forced_dedup();
[[nodiscard]] Fault fp16_params();
[[nodiscard]] Fault fused_gate_ignores_override();
[[nodiscard]] Fault gate_collapsed();
[[nodiscard]] Fault gate_zero_init();
[[nodiscard]] Fault gc_autocast();
[[nodiscard]] Fault gc_late_binding();
[[nodiscard]] Fault gc_nested();
[[nodiscard]] Fault gc_pair();
[[nodiscard]] Fault gc_selection_flip();
[[nodiscard]] Fault gpu_fault();
[[nodiscard]] Fault head_group_off_by_one();
[[nodiscard]] Fault heads_scrambled();
[[nodiscard]] Fault hook_dropped();
[[nodiscard]] Fault hook_lost();
[[nodiscard]] Fault inplace_pack();
[[nodiscard]] Fault kcmp_detached();
[[nodiscard]] Fault kv_expanded();
[[nodiscard]] Fault leak_per_step();
[[nodiscard]] Fault loader_raises();
[[nodiscard]] Fault loader_repeats();
[[nodiscard]] Fault lr_floor();
[[nodiscard]] Fault lr_microsteps();
[[nodiscard]] Fault mask_absent_short();
[[nodiscard]] Fault mask_polarity();
[[nodiscard]] Fault missing_dk_tail();
[[nodiscard]] Fault no_learning();
[[nodiscard]] Fault no_sync_misplaced();
[[nodiscard]] Fault noncausal_pcmp();
[[nodiscard]] Fault phi_v_wrong();
[[nodiscard]] Fault random_local_data();
[[nodiscard]] Fault ranges_mutated();
[[nodiscard]] Fault ranges_oob();
[[nodiscard]] Fault rank_graph();
[[nodiscard]] Fault rank_killed();
[[nodiscard]] Fault rank_stopped();
[[nodiscard]] Fault resume_weights_only();
[[nodiscard]] Fault rope_scale_ignored();
[[nodiscard]] Fault same_data();
[[nodiscard]] Fault scaler_skips();
[[nodiscard]] Fault sched_on_skip();
[[nodiscard]] Fault score_bf16();
[[nodiscard]] Fault score_cubed_fp16();
[[nodiscard]] Fault shared_kv();
[[nodiscard]] Fault silent_fallback();
[[nodiscard]] Fault slow_loader();
[[nodiscard]] Fault state_diverged();
[[nodiscard]] Fault static_accum();
[[nodiscard]] Fault static_no_delay();
[[nodiscard]] Fault stats_sync();
[[nodiscard]] Fault tie_bias();
[[nodiscard]] Fault uninit_buffer();
[[nodiscard]] Fault unshifted_labels();
[[nodiscard]] Fault window_trim_leak();
[[nodiscard]] Fault wrong_dv_scale();
[[nodiscard]] Fault zero_grad_keys();

}  // namespace harness
