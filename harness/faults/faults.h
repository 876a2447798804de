// The faults' own declarations, one function a file: gives the fault's name, parameters and installer.
#pragma once

#include "harness/worker/fault.h"

namespace harness {

[[nodiscard]] Fault adam_eps_underflow();
[[nodiscard]] Fault averaged_twice();
[[nodiscard]] Fault bf16_params();
[[nodiscard]] Fault double_rope();
[[nodiscard]] Fault drop_partial_block();
[[nodiscard]] Fault dtype_promoted();
[[nodiscard]] Fault empty_row_nan();
[[nodiscard]] Fault eq9_shift();
[[nodiscard]] Fault eq9_sign();
[[nodiscard]] Fault finite_sentinel();
[[nodiscard]] Fault first_key();
[[nodiscard]] Fault flat_q_rope();
[[nodiscard]] Fault forced_dedup();
[[nodiscard]] Fault fp16_params();
[[nodiscard]] Fault fused_gate_ignores_override();
[[nodiscard]] Fault gate_collapsed();
[[nodiscard]] Fault gate_zero_init();
[[nodiscard]] Fault head_group_off_by_one();
[[nodiscard]] Fault heads_scrambled();
[[nodiscard]] Fault kcmp_detached();
[[nodiscard]] Fault mask_absent_short();
[[nodiscard]] Fault mask_polarity();
[[nodiscard]] Fault noncausal_pcmp();
[[nodiscard]] Fault phi_v_wrong();
[[nodiscard]] Fault ranges_mutated();
[[nodiscard]] Fault ranges_oob();
[[nodiscard]] Fault rank_graph();
[[nodiscard]] Fault rank_killed();
[[nodiscard]] Fault rank_stopped();
[[nodiscard]] Fault rope_scale_ignored();
[[nodiscard]] Fault same_data();
[[nodiscard]] Fault score_bf16();
[[nodiscard]] Fault score_cubed_fp16();
[[nodiscard]] Fault shared_kv();
[[nodiscard]] Fault tie_bias();
[[nodiscard]] Fault uninit_buffer();
[[nodiscard]] Fault window_trim_leak();

}  // namespace harness
