// Judges one call of a foreign kernel: its output stage by stage as a layer's is (layer_judge.h), the sums of its softmax
// where it gives them, and its gradients at its own forward.
#pragma once

#include <set>

#include "harness/checks/attention/accuracy/layer_judge.h"
#include "harness/checks/kernel/kernel_call.h"
#include "oracles/attention/stages.h"

namespace harness::checks {

[[nodiscard]] LayerJudgement judge_kernel_call(const Scenario& scenario, const KernelCall& call);

// The output of the call's branch by the oracle.
[[nodiscard]] oracles::Tensor right_output(const KernelCall& call);

inline constexpr const char* kGradients = "gradients";  // of all inputs together

// What a judged call says of a law that was found in other calls too.
struct AskedLaw {
  std::string about;  // what it gives: "o_win", "y", "lse" or kGradients
  const KnownLaw& law;
  const std::set<std::string>& tensors;                   // that are wrong in any call
  const std::map<std::string, ComparedTensor>& compared;  // in this call
};

// Vectors of this call that refute the law: they are right, and it would give another result. Of kGradients those of any of them.
// Empty too where the law has no meaning, or nothing was judged.
[[nodiscard]] std::vector<std::size_t> refuting(const Scenario& scenario,
                                                const KernelCall& call,
                                                const AskedLaw& asked);

// Of the output of a stage, by what its stages are here. A pattern that was fitted to the numbers is refuted as a whole.
[[nodiscard]] std::vector<std::size_t> refuting(const oracles::Stages& stages,
                                                oracles::Stage stage,
                                                const oracles::Tensor& found,
                                                const KnownLaw& law,
                                                const ComparedTensor& compared);

}  // namespace harness::checks
