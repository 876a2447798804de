// What a forward pass leaves for the backward pass and for the other uses of the same keys.
// Internal to the oracle. Legend as in attention.h.
#pragma once

#include <array>
#include <vector>

#include "oracles/attention/attend.h"
#include "oracles/attention/attention.h"
#include "oracles/attention/keys.h"
#include "oracles/attention/layer.h"

namespace oracles {

inline constexpr std::array<Branch, 3> kBranches{Branch::cmp, Branch::sel, Branch::win};

// "cmp", "sel" or "win", as in the weights' names.
const char* branch_name(Branch branch);
inline std::size_t index_of(Branch branch) {
  return static_cast<std::size_t>(branch);
}

struct Sizes {
  std::int64_t batch;
  std::int64_t length;
  std::int64_t rows;
  std::int64_t groups;
  std::int64_t heads;  // of a group

  [[nodiscard]] std::int64_t batch_groups() const { return batch * groups; }
};

// The keys and values that a branch attends to: [B,G,C,.] in the compressed one, else [B,G,S,.].
struct BranchKeys {
  Tensor k;
  Tensor v;
};

struct Projections {
  Sizes sizes;
  std::vector<std::int64_t> rows;
  Tensor x_BRE;                        // inputs of the rows
  Tensor q_BGhRD;                      // rotated
  BranchKeys raw_cmp;                  // rotated keys and the values before compression [B,G,S,.]
  std::array<BranchKeys, 3> branches;  // by index_of
};

struct Activations {
  Projections projections;
  IntTensor attended;  // [B,G,R,n_sel] blocks of the selected branch, replayed or own
  Tensor mixed_BRHV;   // gated sum of the branches, heads concatenated: the input of out.weight
  AttentionResult result;
};

// Validates config, weights and x; returns S.
std::int64_t validated_length(const Layer& layer, const Tensor& x);
// The positions themselves, or all where there are none. Throws std::invalid_argument where they do
// not ascend strictly below `length`.
std::vector<std::int64_t> requested_rows(const std::vector<std::int64_t>& rows,
                                         std::int64_t length);
// Validates everything it is given.
Projections project(const Layer& layer, const Tensor& x, const AttentionOptions& options);
// One bank for each batch and group, in the order b * G + g. Refers to `keys`.
std::vector<KeyBank> key_banks(const BranchKeys& keys);
// The queries of a group at a row: [h, D]; and a branch output or its gradient there: [h, V].
View head_rows(const Tensor& heads_BGhRW, std::int64_t group, std::int64_t row);
MutableView head_rows(Tensor& heads_BGhRW, std::int64_t group, std::int64_t row);

Activations run_forward(const Layer& layer, const Tensor& x, const AttentionOptions& options);
// dy [B,R,E]. A constant gate has no gradient to pass on to its weights.
AttentionGradients run_backward(const Layer& layer,
                                const Activations& state,
                                const Tensor& x,
                                const Tensor& dy,
                                bool gate_is_constant);

}  // namespace oracles
