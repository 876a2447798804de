// The backward of a branch makes the scores of all pairs of queries and keys at once, where its forward makes none: what
// a kernel's backward does that falls back to plain products. Numbers and kept memory are right; the peak grows with S^2.
#include "harness/faults/attention/attend_seam.h"
#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

const std::vector<std::string> kDenseSeams = {"attend_win", "attend_sel"};

// Calls `before` when the gradient of the output arrives, with q and k of the call.
template <typename Before>
void in_front_of_backward(nsa::AttentionSeams& seams, const std::string& seam, Before before) {
  const auto changed = [before](const auto& inner) {
    return [inner, before](const nsa::SeamContext& context,
                           const Tensor& q_BHSD,
                           const Tensor& k_BGSD,
                           const auto&... rest) {
      const Tensor o_BHSD = inner(context, q_BHSD, k_BGSD, rest...);
      if (!o_BHSD.requires_grad()) return o_BHSD;
      o_BHSD.register_hook([before, q = q_BHSD.detach(), k = k_BGSD.detach()](
                               const Tensor& /*gradient*/) { before(q, k); });
      return o_BHSD;
    };
  };
  wrap_attend(seams, seam, changed);
}

void install_dense_backward(FaultContext& context) {
  const std::string seam = fault_form(context.request, kDenseSeams);
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    in_front_of_backward(seams, seam, [&context](const Tensor& q_BHSD, const Tensor& k_BGSD) {
      const torch::NoGradGuard no_graph;
      const Tensor p_BHSK = scaled_logits(q_BHSD, k_BGSD).softmax(-1);
      if (p_BHSK.numel() > 0) context.fired();
    });
  });
}

}  // namespace

Faults faults_of_dense_backward() {
  return {{"dense_backward",
           "the backward of a branch makes the scores of all pairs of queries and keys",
           {"layers", "form"},
           install_dense_backward,
           kDenseSeams}};
}

}  // namespace harness
