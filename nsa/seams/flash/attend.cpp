#include "nsa/seams/flash/branches.h"
#include "nsa/seams/flash/flash.h"
#include "nsa/seams/flash/kernels.h"

namespace nsa::flash {
namespace {

constexpr const char* kDense = "fa2";
constexpr const char* kVarlen = "fa2_varlen";

// `branch` through `kernel`, as implementation `name` of `seam`.
template <typename Branch, typename Kernel>
Tensor run(const SeamContext& context,
           const char* seam,
           const char* name,
           Branch branch,
           Kernel kernel,
           const Tensor& q_BHSD,
           const Tensor& k_BGKD,
           const Tensor& v_BGKD) {
  refuse_unsupported(context, seam, name, q_BHSD, k_BGKD, v_BGKD);
  const Tensor o_BHSD = branch(kernel, context.config, q_BHSD, k_BGKD, v_BGKD);
  context.routes.ran(seam, context.layer, name, o_BHSD);
  return o_BHSD;
}

}  // namespace

// arXiv 2502.11089 section 3.3.3: the last w tokens, the query's own included.
Tensor attend_win(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD) {
  return run(context, "attend_win", kDense, window_dense, dense, q_BHSD, k_BGSD, v_BGSD);
}

Tensor attend_win_varlen(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGSD,
                         const Tensor& v_BGSD) {
  return run(context, "attend_win", kVarlen, window_varlen, varlen, q_BHSD, k_BGSD, v_BGSD);
}

// arXiv 2502.11089 Eq. 7.
Tensor attend_cmp(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGCD,
                  const Tensor& v_BGCD) {
  return run(context, "attend_cmp", kDense, compressed_dense, dense, q_BHSD, k_BGCD, v_BGCD);
}

Tensor attend_cmp_varlen(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGCD,
                         const Tensor& v_BGCD) {
  return run(context, "attend_cmp", kVarlen, compressed_varlen, varlen, q_BHSD, k_BGCD, v_BGCD);
}

}  // namespace nsa::flash
