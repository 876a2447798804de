// Judges one call of a foreign kernel: its output stage by stage as a layer's is (layer_judge.h), the sums of its softmax
// where it gives them, and its gradients at its own forward.
#pragma once

#include "harness/checks/attention/accuracy/layer_judge.h"
#include "harness/checks/kernel/kernel_call.h"

namespace harness::checks {

[[nodiscard]] LayerJudgement judge_kernel_call(const Scenario& scenario, const KernelCall& call);

}  // namespace harness::checks
