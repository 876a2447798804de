// The loss of a language model (golden README, "Language model"): the mean over the B*(S-1)
// positions t < S-1, or over the first scored[b] of each sequence b (docs/data.md, "Loss mask"), of -log softmax(logits[b,t])[tokens[b,t+1]].
#pragma once

#include <cstdint>
#include <span>

#include "oracles/tensor.h"

namespace oracles {

struct CrossEntropy {
  double loss = 0;
  Tensor dlogits_BSV;  // its gradient; zeros where nothing is scored, as at the last position
};

// logits [B,S,V]; tokens [B,S], each of [0, V), S >= 2; scored empty, or B numbers of [1, S-1].
// REQUIRES: all that.
CrossEntropy cross_entropy(const Tensor& logits_BSV,
                           const IntTensor& tokens_BS,
                           std::span<const std::int64_t> scored = {});

}  // namespace oracles
