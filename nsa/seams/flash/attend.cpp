#include "nsa/seams/flash/branches.h"
#include "nsa/seams/flash/flash.h"
#include "nsa/seams/flash/kernels.h"

namespace nsa::flash {
namespace {

constexpr const char* kDense = "fa2";
constexpr const char* kVarlen = "fa2_varlen";

}  // namespace

// arXiv 2502.11089 section 3.3.3: the last w tokens, the query's own included.
Tensor attend_win(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGSD,
                  const Tensor& v_BGSD) {
  refuse_unsupported(context, "attend_win", kDense, q_BHSD, k_BGSD, v_BGSD);
  const Tensor o_BHSD = window_dense(dense, context.config, q_BHSD, k_BGSD, v_BGSD);
  context.routes.ran("attend_win", context.layer, kDense, o_BHSD);
  return o_BHSD;
}

Tensor attend_win_varlen(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGSD,
                         const Tensor& v_BGSD) {
  refuse_unsupported(context, "attend_win", kVarlen, q_BHSD, k_BGSD, v_BGSD);
  const Tensor o_BHSD = window_varlen(varlen, context.config, q_BHSD, k_BGSD, v_BGSD);
  context.routes.ran("attend_win", context.layer, kVarlen, o_BHSD);
  return o_BHSD;
}

// arXiv 2502.11089 Eq. 7.
Tensor attend_cmp(const SeamContext& context,
                  const Tensor& q_BHSD,
                  const Tensor& k_BGCD,
                  const Tensor& v_BGCD) {
  refuse_unsupported(context, "attend_cmp", kDense, q_BHSD, k_BGCD, v_BGCD);
  const Tensor o_BHSD = compressed_dense(dense, context.config, q_BHSD, k_BGCD, v_BGCD);
  context.routes.ran("attend_cmp", context.layer, kDense, o_BHSD);
  return o_BHSD;
}

Tensor attend_cmp_varlen(const SeamContext& context,
                         const Tensor& q_BHSD,
                         const Tensor& k_BGCD,
                         const Tensor& v_BGCD) {
  refuse_unsupported(context, "attend_cmp", kVarlen, q_BHSD, k_BGCD, v_BGCD);
  const Tensor o_BHSD = compressed_varlen(varlen, context.config, q_BHSD, k_BGCD, v_BGCD);
  context.routes.ran("attend_cmp", context.layer, kVarlen, o_BHSD);
  return o_BHSD;
}

}  // namespace nsa::flash
