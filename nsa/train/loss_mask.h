// Which positions of a sequence the loss scores, and what a micro-batch's mean counts in its step (docs/data.md, "Loss mask"). A
// pure function of (seed, step, micro-batch, rank, world), like the tokens: any process knows the tokens of all.
#pragma once

#include <cstdint>

#include "nsa/base/config.h"
#include "nsa/torch.h"
#include "nsa/train/data.h"

namespace nsa {

class LossMask {
 public:
  LossMask(const DataConfig& config, const BatchShape& shape, std::int64_t seed, int world);

  // Of each row of a micro-batch, how many of its first positions are scored. Without a mask none is said: all S-1 are.
  [[nodiscard]] Scored scored(std::int64_t step, std::int64_t micro, int rank) const;
  // Their number in a micro-batch; of packed documents without their last tokens, as many in every micro-batch.
  [[nodiscard]] std::int64_t tokens(std::int64_t step, std::int64_t micro, int rank) const;
  // What a micro-batch's mean counts in a mean over micro-batches: its tokens; 1 where all have the same number.
  [[nodiscard]] double weight(std::int64_t step, std::int64_t micro, int rank) const;
  // What the backward starts from, before the loss scale. The mean over the ranks of the sum over their micro-batches is the sum
  // over all scored tokens of the step, over their number: mean * tokens * world / tokens of the step; without a mask
  // mean / accumulate.
  [[nodiscard]] torch::Tensor share(const torch::Tensor& mean,
                                    std::int64_t step,
                                    std::int64_t micro,
                                    int rank) const;

 private:
  [[nodiscard]] bool is_ragged() const { return config_.loss_mask == DataConfig::LossMask::ragged; }

  DataConfig config_;
  BatchShape shape_;
  std::uint64_t key_;
  int world_;
};

}  // namespace nsa
