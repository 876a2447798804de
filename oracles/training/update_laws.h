// Wrong AdamW updates that are known to happen, and which of them made the recorded state. A law is
// the formula of judge_adamw.h with another term; its bound is derived in the same way.
#pragma once

#include <cmath>
#include <optional>
#include <span>
#include <string_view>

#include "oracles/training/judge_adamw.h"

namespace oracles {

std::span<const Law> update_laws();

// What a law needs to know of the step beside UpdateSettings, whose `factor` is the right one.
struct UpdateContext {
  TrainConfig train;
  double norm = 0;            // L2 norm of all gradients together, unscaled, before clipping
  double largest = HUGE_VAL;  // magnitude of any number of the gradients, unscaled
  double local_norm = 0;      // of this rank's own gradients before the reduction; 0: not on record
  double loss_scale = 1;
  std::int64_t world = 1;
  std::int64_t accumulate = 1;
  std::int64_t skipped = 0;  // steps skipped so far
};

// Beside the laws of this list, two that no formula gives: "p_kept_narrow" and "moments_kept_narrow",
// where every wrong number is the right one with the digits of bfloat16 or float16 only.

// p, m and v of the record under the law. None where the law has no meaning: nothing to clip, no
// step before the first, one rank. Throws std::invalid_argument for an unknown name.
std::optional<UpdatePrediction> update_under(std::string_view law,
                                             const UpdateRecord& record,
                                             const UpdateSettings& settings,
                                             const UpdateContext& context);

// The judgements are judge_update's for the same records and settings. Misfit::right sums up p, m
// and v of all of them. Laws are tried on the parameters that are wrong, each on the wrong elements
// that its judgement lists and 4096 more, spread evenly: a law fits where it gives p, m and v of
// every wrong one. Where the laws fit some parameters only, name those alone.
Naming name_updates(std::span<const UpdateRecord> records,
                    std::span<const UpdateJudgement> judgements,
                    const UpdateSettings& settings,
                    const UpdateContext& context);

}  // namespace oracles
