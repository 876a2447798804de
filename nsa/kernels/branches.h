// Each step of the attention alone. Contracts, shapes and arithmetic as in attention.h; every workspace is sized by the
// function beside it. In a backward pass of one branch no gate takes part: d_o is the gradient of that branch's output.
#pragma once

#include "nsa/kernels/attention.h"

namespace nsa::kernels {

enum class Pooled { keys, values };
enum class Branch { compressed, selected, window };

// out [B,G,C,D] from raw [B,G,first+S,D]; `conv` [D,l] where phi is conv.
void compress(const Problem& problem,
              Pooled what,
              const Rows& raw,
              const void* conv,
              const std::int32_t* cu_seqlens,
              const MutableRows& out,
              Stream stream);
[[nodiscard]] std::size_t compress_backward_workspace(const Problem& problem);
// d_raw from d_out [B,G,C,D]; raw and d_conv [D,l] float32 only where phi is conv.
void compress_backward(const Problem& problem,
                       Pooled what,
                       const Rows& raw,
                       const void* conv,
                       const Rows& d_out,
                       const std::int32_t* cu_seqlens,
                       const MutableRows& d_raw,
                       float* d_conv,
                       void* workspace,
                       Stream stream);

// p_grp float32 [B,G,S,N], unit stride in N, every block of the longest sequence written, 0 for what is not visible.
void score(const Problem& problem,
           const Rows& q,
           const Rows& k_cmp,
           const float* lse_cmp,
           const std::int32_t* cu_seqlens,
           const MutableRows& p_grp,
           Stream stream);
// blocks int32 [B,G,S,n]: forced blocks and the best complete ones before the query, by (score descending, index
// ascending), a NaN lowest; ascending, then -1.
void select(const Problem& problem,
            const Rows& p_grp,
            const std::int32_t* cu_seqlens,
            const MutableRows& blocks,
            Stream stream);
// Both without the scores in memory but for a chunk of queries; scores that decide nothing are not computed.
[[nodiscard]] std::size_t choose_workspace(const Problem& problem);
void choose(const Problem& problem,
            const Rows& q,
            const Rows& k_cmp,
            const float* lse_cmp,
            const std::int32_t* cu_seqlens,
            const MutableRows& blocks,
            void* workspace,
            Stream stream);

struct AttendInputs {
  Rows q;
  Rows k, v;  // of the branch; the compressed ones in Branch::compressed
  Rows
      blocks;  // Branch::selected: int32 [B,G,S,n]; entries < 0, repeated or in the future are not read
  const std::int32_t* cu_seqlens = nullptr;
};
[[nodiscard]] std::size_t attend_workspace(const Problem& problem, Branch branch);
void attend(const Problem& problem,
            Branch branch,
            const AttendInputs& in,
            const MutableRows& o,
            float* lse,
            void* workspace,
            Stream stream);
[[nodiscard]] std::size_t attend_backward_workspace(const Problem& problem, Branch branch);
void attend_backward(const Problem& problem,
                     Branch branch,
                     const AttendInputs& in,
                     const Rows& o,
                     const float* lse,
                     const Rows& d_o,
                     const MutableRows& d_q,
                     const MutableRows& d_k,
                     const MutableRows& d_v,
                     void* workspace,
                     Stream stream);

// o = gate_cmp o_cmp + gate_sel o_sel + gate_win o_win
void combine(const Problem& problem,
             const Rows& gates,
             const Rows (&branches)[3],
             const std::int32_t* cu_seqlens,
             const MutableRows& o,
             Stream stream);
void combine_backward(const Problem& problem,
                      const Rows& gates,
                      const Rows (&branches)[3],
                      const Rows& d_o,
                      const std::int32_t* cu_seqlens,
                      const MutableRows& d_gates,
                      const MutableRows (&d_branches)[3],
                      Stream stream);

}  // namespace nsa::kernels
