// One call of a foreign kernel, as the oracle wants it: what the controller drew, and what came back. A kernel is one branch's
// attention without a layer around it: queries, keys and values are given, so nothing before them is judged. The layer of the
// oracle still has weights and an input; they are arbitrary numbers, so that a law which would use them explains nothing.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "harness/checks/attention/record/layer_record.h"
#include "harness/scenario/scenario.h"
#include "nsa/base/safetensors.h"
#include "oracles/attention/layer.h"

namespace harness::checks {

inline constexpr const char* kKernelOutputs = "kernel_outputs";

struct KernelCall {
  LayerRecord
      record;  // q, k_* and v_* are given; o_* is judged; its rows are those that the trial has judged
  oracles::Branch branch = oracles::Branch::sel;
  oracles::Tensor d_o;  // [B,G,h,R,V]; zero in all other rows
  // "q", "k" and "v", shaped like these; empty where the case wants none. One that did not come back is zero.
  std::map<std::string, oracles::Tensor> gradients;
  std::optional<oracles::Tensor> lse;  // [B,G,h,R]
  double lse_unit_roundoff = 0.0;
};

// What a kernel of a level gives: "o", "scores" or "blocks".
[[nodiscard]] const char* result_of_level(const std::string& level);

// A layer without tensors of its own: weights and input are arbitrary numbers. `dtype` is that of the kernel's inputs.
[[nodiscard]] LayerRecord blank_layer(const Scenario& scenario,
                                      const oracles::AttentionConfig& config,
                                      std::int64_t batch,
                                      std::int64_t length,
                                      nsa::DType dtype);

// The oracle's logits are q.k / sqrt(d_k): queries times this give those of the case's scale.
[[nodiscard]] double logit_ratio(const Scenario& scenario);

// The oracle gets what was given to the kernel, and not what came back. Refers to the record.
void give_inputs(const LayerRecord& record, oracles::Stages& stages);

// The scenario with the widths of this trial. Throws: nsa::Error where they cannot be read.
[[nodiscard]] Scenario scenario_of_trial(const Scenario& scenario,
                                         const nsa::SafetensorsFile& inputs);

// Positions that the trial has judged, ascending: all, or those that its file lists.
// Throws: nsa::Error where these are no such list.
[[nodiscard]] std::vector<std::int64_t> judged_rows(const nsa::SafetensorsFile& inputs,
                                                    std::int64_t length);

// The rows that are judged of a tensor whose last but one axis is all positions.
[[nodiscard]] oracles::Tensor rows_of(oracles::Tensor all, const std::vector<std::int64_t>& rows);

// The same of the gradient that comes in. Throws: nsa::Error where it is not zero in another row: then gradients of keys and
// values are not what the judged rows give.
[[nodiscard]] oracles::Tensor only_rows_of(oracles::Tensor d_o,
                                           const std::vector<std::int64_t>& rows);

// Query heads [B,H,S,W] with the heads of a group apart: [B,G,h,S,W].
[[nodiscard]] oracles::Tensor by_group(const Scenario& scenario, oracles::Tensor heads);

// Throws: nsa::Error where the shape is another.
[[nodiscard]] oracles::Tensor tensor_of(const nsa::SafetensorsFile& file,
                                        const char* name,
                                        const std::vector<std::int64_t>& wanted);

// The model of a kernel: nothing is projected, so that no limit counts the terms of a projection.
[[nodiscard]] nsa::ModelConfig kernel_model(const Scenario& scenario);

// The case lets this rounding pass (kernel_roundings.h).
[[nodiscard]] bool allows(const Scenario& scenario, const std::string& law);

// REQUIRES: a level of attention.
[[nodiscard]] oracles::Branch branch_of_level(const std::string& level);

// Throws: nsa::Error where a tensor is missing, or has not the shape or the type that the case demands.
[[nodiscard]] KernelCall read_kernel_call(const Scenario& scenario,
                                          const nsa::SafetensorsFile& inputs,
                                          const nsa::SafetensorsFile& outputs);

}  // namespace harness::checks
