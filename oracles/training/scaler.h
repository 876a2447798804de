// The loss scale of fp16 (docs/data.md): begins at 65536; a step whose norm is not finite is not
// taken and halves it (1 at least); after 2000 steps in a row that were taken it doubles (2^60 at
// most). And the laws that name another course of it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "oracles/naming.h"

namespace oracles {

struct LossScale {
  double scale = 65536;
  std::int64_t taken = 0;  // steps in a row that were taken since the scale last changed
};

// After a step whose norm was finite or not.
LossScale scale_after(const LossScale& before, bool finite);

std::span<const Law> scale_laws();

// One step as a run recorded it.
struct ScaleStep {
  bool finite = true;  // the norm of its gradients
  double scale = 0;    // that its loss was multiplied by
  bool taken = true;   // whether any parameter, moment or count changed
};

// The scale and whether the step is taken, of consecutive steps under a law; "right" is the right
// law. `finite` of each step, in order. Throws std::invalid_argument for an unknown name.
std::vector<ScaleStep> scales_under(std::string_view law,
                                    const LossScale& first,
                                    const std::vector<bool>& finite);

// Consecutive steps of one run; `first` is the state before the first of them. Misfit::right counts
// two numbers a step: the scale, then whether it was taken. A law must give all steps.
Naming name_scales(const LossScale& first, std::span<const ScaleStep> steps);

}  // namespace oracles
