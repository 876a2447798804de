// The loss of a language model (golden README, "Language model"): the mean over the B*(S-1)
// positions t < S-1 of -log softmax(logits[b,t])[tokens[b,t+1]].
#pragma once

#include "oracles/tensor.h"

namespace oracles {

struct CrossEntropy {
  double loss = 0;
  Tensor dlogits_BSV;  // its gradient; zeros at the last position
};

// logits [B,S,V]; tokens [B,S], each of [0, V), S >= 2. REQUIRES: all that.
CrossEntropy cross_entropy(const Tensor& logits_BSV, const IntTensor& tokens_BS);

}  // namespace oracles
