// Between tensors and the kernels' views of memory. Shape letters as in nsa/seams/seams.h.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "nsa/kernels/attention.h"
#include "nsa/seams/seams.h"

namespace nsa::cuda {

using torch::Tensor;

// What a row of the registry is: its name and the family of kernels that it takes.
struct BackEnd {
  const char* name;
  kernels::Family family;
};

// The part of the attention that a seam asks of the kernels.
enum class Part { whole_layer, compress, score, select, attend };

// REQUIRES: type is bfloat16 or float16.
[[nodiscard]] inline kernels::Element element_of(torch::ScalarType type) {
  return type == torch::kHalf ? kernels::Element::fp16 : kernels::Element::bf16;
}

// "" where kernels take this type, else why not.
[[nodiscard]] std::string unsupported_type(torch::ScalarType type);

// The problem of `batch` sequences of `length` tokens. REQUIRES: type is bfloat16 or float16.
[[nodiscard]] kernels::Problem problem_of(const BackEnd& back_end,
                                          const ModelConfig& config,
                                          torch::ScalarType type,
                                          std::int64_t batch,
                                          std::int64_t length);

// What of `config` and, where that is known, of the surroundings the kernels cannot do; "" when nothing.
[[nodiscard]] std::string unsupported(const BackEnd& back_end,
                                      Part part,
                                      const ModelConfig& config,
                                      const Surroundings* where);

// Throws: Refused, before anything runs, when the kernels cannot do this call. All tensors are of one type and device. What a call
// reads is not counted, and SeamContext::reads says so.
void refuse_unsupported(const BackEnd& back_end,
                        Part part,
                        const char* seam,
                        const SeamContext& context,
                        const std::vector<Tensor>& operands);

// `x` [B,heads,S,D] itself where kernels can copy its rows 16 bytes at a time, else without gaps.
[[nodiscard]] Tensor readable(const Tensor& x);
// Of a tensor [B,heads,S,D] or, of numbers, [B,heads,S,n]; unit stride in the last dimension.
[[nodiscard]] kernels::MutableRows rows_of(const Tensor& x);
// [B,heads,S,D] over memory in the order B, S, heads, D, not written yet.
[[nodiscard]] Tensor new_heads(const Tensor& like,
                               std::int64_t heads,
                               std::int64_t positions,
                               std::int64_t width);
[[nodiscard]] Tensor new_floats(const Tensor& like, std::int64_t count);
[[nodiscard]] Tensor new_bytes(const Tensor& like, std::size_t count);

// Autograd functions take a tensor that may be missing as an optional one.
[[nodiscard]] std::optional<Tensor> optional_of(const Tensor& x);
[[nodiscard]] Tensor without_gaps(const std::optional<Tensor>& x);  // undefined where there is none

// A problem (and what else an operation is) from its forward to its backward pass.
struct Kept : torch::CustomClassHolder {
  kernels::Problem problem;
  int choice = 0;  // what the operation makes of it
};
void keep(torch::autograd::AutogradContext* context, const kernels::Problem& problem, int choice);
[[nodiscard]] const Kept& kept(torch::autograd::AutogradContext* context);

}  // namespace nsa::cuda
