// A prompt's last window of raw tokens is compressed although it is not complete. No query of the prompt may see the
// token, so every output of it is right; what is decoded afterwards reads one compressed token more.
#include "harness/faults/attention/struck_rows.h"
#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

// The mean of what there is of the window: any values do, since no mask lets them through.
Tensor with_one_more(const Tensor& pooled_BGCD, const Tensor& raw_BGSD, std::int64_t first) {
  const Tensor rest_BGTD = raw_BGSD.slice(2, first);
  return torch::cat({pooled_BGCD, rest_BGTD.mean(2, /*keepdim=*/true)}, 2);
}

void install_padded(FaultContext& context) {
  const std::int64_t whole = context.session.the_case().scenario.training.seq_len;
  for_fault_layers(context, [&](nsa::AttentionSeams& seams) {
    seams.attention = [inner = seams.attention, whole, &context](
                          const nsa::SeamContext& seam,
                          const nsa::AttentionSeams& parts,
                          const nsa::AttentionWeights& weights,
                          const Tensor& x_BSE) {
      nsa::AttentionTrace trace = inner(seam, parts, weights, x_BSE);
      const std::int64_t first = seam.config.compressed_len(x_BSE.size(1)) * seam.config.d;
      if (x_BSE.size(1) == whole || first >= x_BSE.size(1))
        return trace;  // nothing is decoded after
      context.fired();
      trace.k_cmp_BGCD = with_one_more(trace.k_cmp_BGCD, trace.k_raw_BGSD, first);
      trace.v_cmp_BGCD = with_one_more(trace.v_cmp_BGCD, trace.v_raw_BGSD, first);
      return trace;
    };
  });
}

}  // namespace

Faults faults_of_prompt_caches() {
  return {{"prompt_window_padded",
           "the last, incomplete window of a prompt is compressed as if it were whole",
           {"layers"},
           install_padded}};
}

}  // namespace harness
