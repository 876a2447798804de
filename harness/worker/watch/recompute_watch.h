// Looks at every checkpointed layer twice, when it is computed and when it is computed again in the backward: dtype, selected
// blocks and output must be the same. Installed after a fault, so that it sees what the fault does; changes no value. Outlives
// the model's backwards.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "harness/worker/channel.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/torch.h"
#include "nsa/train/activation_checkpoint.h"

namespace harness {

class RecomputeWatch {
 public:
  // Puts itself around the seams of all layers, since a layer may be computed again by another one's; observes `checkpoint`.
  RecomputeWatch(Channel& channel,
                 nsa::ActivationCheckpoint& checkpoint,
                 nsa::NsaLm& model,
                 std::string mode);
  RecomputeWatch(const RecomputeWatch&) = delete;
  RecomputeWatch& operator=(const RecomputeWatch&) = delete;

  void begin(std::int64_t step, std::int64_t micro);
  // One row for every layer that was computed again since begin().
  void write();

 private:
  struct Look {
    std::string dtype;
    std::array<double, 2>
        q_sums{};  // of the projected queries and of their sizes: nothing large is kept
    torch::Tensor blocks_BGSn;
    torch::Tensor y_BSE;
  };
  void watch_layer(nsa::AttentionSeams& seams);
  Look& now(const nsa::SeamContext& context);

  Channel& channel_;
  std::string mode_;
  std::int64_t step_ = 0;
  std::int64_t micro_ = 0;
  std::map<int, Look> forward_;
  std::map<int, Look> again_;
};

}  // namespace harness
