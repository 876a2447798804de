// The whole operation on compressed tokens that the caller has pooled, by a law of its own: attention.h without its first step.
// Problem::phi is not looked at.
#pragma once

#include "nsa/kernels/attention.h"

namespace nsa::kernels {

// As forward() and backward() with their workspaces. Inputs::k_raw and v_raw are not read; Saved::k_cmp and v_cmp are. The gradients
// k_raw and v_raw become those of k_cmp and v_cmp, [B,G,C,.].
void forward_of_pooled(const Problem& problem,
                       const Inputs& in,
                       const Saved& saved,
                       const MutableRows& o,
                       void* workspace,
                       Stream stream);
void backward_of_pooled(const Problem& problem,
                        const Inputs& in,
                        const Saved& saved,
                        const Rows& d_o,
                        const Gradients& gradients,
                        void* workspace,
                        Stream stream);

}  // namespace nsa::kernels
