// The launches that the whole operation and the single branches share. Internal to nsa/kernels.
#pragma once

#include "nsa/kernels/plan.h"

namespace nsa::kernels {

struct KeyTensors {
  Rows k;
  Rows v;
};

PoolTensor pool_tensor(const Work& work, Pooled what, const void* conv);
// Rows of the tensors' keys over all sequences: raw tokens (stride 1) or compressed ones (stride d).
std::int64_t key_count(const Work& work, int stride);

KeySource key_source_of(const Work& work, RangeKind kind, const KeyTensors& keys);

// Blocks of all queries, scores in `scratch` chunk after chunk.
struct ChooseBuffers {
  float* scores = nullptr;
  int chunk_tokens = 0;
};
ChooseBuffers take_scores(const Work& work, Carver& carver);
void run_choose(const Work& work,
                const Rows& q,
                const Rows& k_cmp,
                const float* lse,
                const MutableRows& blocks,
                const ChooseBuffers& buffers);
ScoreParams score_params(const Work& work, const Rows& q, const Rows& k_cmp, const float* lse);
SelectParams select_params(
    const Work& work, const TensorRef& scores, const Rows& blocks, int from, int to);

// One branch of a forward launch: where its results go, and the keys of its softmax.
struct BranchWork {
  ForwardBranch to;
  KeySource sources[2];
  int source_count = 1;
};
// All rows in one launch: window and compressed attention, the forced blocks.
void run_forward(const Work& work, const Rows& q, const BranchWork* branches, int count);

// The selected branch, chunk after chunk: parts of the lists' blocks, then `finish` with everything but its rows set.
// `dense`: where the share of the forced blocks waits.
void run_selected(const Work& work,
                  const Rows& q,
                  const KeyTensors& keys,
                  const ListPlan& plan,
                  const PartBuffers& parts,
                  const TensorRef& dense,
                  MergeOutputsParams finish);

// dq of all rows and, where `plan` has lists, the gradients that those give: parts of dq, and dk, dv added to `sums`. `steps`
// [G,T,h] is what the dense share of dq takes until then.
struct SelectedGradient {
  KeyTensors keys;
  const float* lse = nullptr;
  const float* gate_delta = nullptr;
  float* sums = nullptr;
  float* steps = nullptr;
};
// Counters of the blocks of a launch, zero before each chunk.
struct TurnBuffers {
  int* tickets = nullptr;  // the turns follow them
  std::int64_t count = 0;
};
TurnBuffers take_turns(const Work& work, const ListPlan& plan, Carver& carver);
void run_query_gradient(const Work& work,
                        QueryGradientParams p,
                        const ListPlan& plan,
                        const PartBuffers& parts,
                        const SelectedGradient& selected,
                        const TurnBuffers& turns);

}  // namespace nsa::kernels
