// The seams of a training step: named places outside the model where one implementation can stand for another. They belong
// to no layer (-1 in the routes); grad_sync, the third one, is nsa::ReduceBucket in nsa/parallel/data_parallel.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nsa/torch.h"
#include "nsa/train/dropout.h"

namespace nsa {

struct TrainingSeams {
  // The micro-batch of one rank: tokens [B,S] int64 on the CPU, undefined when there is no more. Steps count from 1,
  // micro-batches and ranks from 0.
  std::function<torch::Tensor(std::int64_t step, std::int64_t micro, int rank, int world)> data;
  // The mean loss of a micro-batch, a scalar with a graph, over the first scored_B positions of each row; over all that predict
  // where scored_B is empty.
  std::function<torch::Tensor(const torch::Tensor& logits_BSV,
                              const torch::Tensor& tokens_BS,
                              const std::vector<std::int64_t>& scored_B)>
      loss;
  // The micro-batch's share of the step's loss, from its mean (loss_mask.h).
  std::function<torch::Tensor(
      const torch::Tensor& mean, std::int64_t step, std::int64_t micro, int rank)>
      share;
  // Which numbers of a branch are kept, [B,S,E] bool on the CPU; not called without dropout.
  std::function<torch::Tensor(const DropoutPlace& place, std::int64_t width)> kept;
  // Clips the gradients, updates the parameters and returns the gradient norm before clipping.
  std::function<double(std::int64_t step)> optimizer;
  // Writes the state after a step into a snapshot file. It may return before the file is there; then the state that the file
  // will hold is still that of the call.
  std::function<void(const std::string& path, std::int64_t step)> save;
  // Brings back the state that a snapshot file holds; returns the step after which it was taken.
  std::function<std::int64_t(const std::string& path)> restore;
};

}  // namespace nsa
