// Inputs of an attention layer that can fail it: each a pure function of seed and layer. Drawn in float64 on the CPU,
// so that every device and precision starts from the same numbers.
#pragma once

#include <string>
#include <vector>

#include "nsa/base/config.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/torch.h"

namespace harness {

struct InputRequest {
  std::string inputs;  // of kInputs
  std::int64_t seed = 0;
  int layer = 0;
  std::int64_t batch = 1;
  std::int64_t length = 1;
};

// x [B,S,E]:
//   normal        N(0,1)
//   large_logits  scaled so that q.k grows fivefold
//   ties          zeros in half of the selection blocks: their compressed keys, and so their scores, are equal
//   integers      -2 .. 2
//   one_hot       one element of each token is 1
//   equal_keys    one token, everywhere
[[nodiscard]] torch::Tensor draw_inputs(const InputRequest& request,
                                        const nsa::ModelConfig& config);

// Gives every weight of the attention layers that begins with equal numbers (filters and positions of phi, biases of the gate)
// numbers of its own, near the first ones: among equal ones a wrong index, or another branch's weight, shows nowhere.
void draw_equal_weights(nsa::NsaLm& model, std::int64_t seed);

// The same numbers, with sequences side by side in memory and each row followed by as many NaNs.
[[nodiscard]] torch::Tensor with_gaps(const torch::Tensor& x_BSE);

// x with other values from position `first` on.
[[nodiscard]] torch::Tensor perturbed_suffix(const torch::Tensor& x_BSE,
                                             std::int64_t first,
                                             std::int64_t seed,
                                             int layer);

// dy [B,S,E], N(0,1). Beyond kAllRows tokens only kSampledRows positions of each sequence have one, the edges of blocks and
// window among them: the oracle is then asked for those rows alone, and its gradients are still exact.
inline constexpr std::int64_t kAllRows = 4096;
inline constexpr std::int64_t kSampledRows = 512;
[[nodiscard]] torch::Tensor draw_cotangents(const InputRequest& request,
                                            const nsa::ModelConfig& config);

}  // namespace harness
