// The loss of a language model (golden README, "Language model"): the mean over the B*(S-1)
// positions t < S-1, or over the first scored[b] of each sequence b (docs/data.md, "Loss mask"), of
// -log softmax(logits[b,t])[tokens[b,t+1]]. Of packed documents (the same page) without their last tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracles/tensor.h"

namespace oracles {

struct CrossEntropy {
  double loss = 0;
  Tensor dlogits_BSV;  // its gradient; zeros where nothing is scored, as at the last position
};

// logits [B,S,V]; tokens [B,S], each of [0, V), S >= 2; scored empty, or B numbers of [1, S-1].
// documents empty, or of each sequence the lengths of its documents, S in all, of which one has two tokens.
// REQUIRES: all that.
CrossEntropy cross_entropy(const Tensor& logits_BSV,
                           const IntTensor& tokens_BS,
                           std::span<const std::int64_t> scored = {},
                           std::span<const std::vector<std::int64_t>> documents = {});

}  // namespace oracles
