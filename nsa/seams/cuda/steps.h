// One step of the attention each, by the kernels. Shape letters, results and arguments as the seams of the same names have
// them (nsa/seams/seams.h). All Throw: Refused, before anything runs.
#pragma once

#include "nsa/kernels/branches.h"
#include "nsa/seams/cuda/operands.h"

namespace nsa::cuda {

Tensor compress(const BackEnd& back_end,
                const SeamContext& context,
                const Tensor& raw_BGSD,
                Pooled what,
                const PhiWeights& weights);

// The denominators of the softmax come from a pass over the keys of its own.
Tensor score(const BackEnd& back_end,
             const SeamContext& context,
             const Tensor& q_BHSD,
             const Tensor& k_cmp_BGCD);

Tensor select(const BackEnd& back_end, const SeamContext& context, const Tensor& p_grp_BGSN);

// Seam attend_cmp, attend_sel or attend_win; blocks only of the selected branch.
Tensor attend(const BackEnd& back_end,
              const SeamContext& context,
              kernels::Branch branch,
              const Tensor& q_BHSD,
              const Tensor& k_BGKD,
              const Tensor& v_BGKD,
              const Tensor& blocks_BGSn = {});

}  // namespace nsa::cuda
