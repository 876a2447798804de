// float32 copies of weights that the model holds in a narrower dtype: the optimiser updates them, the model gets them rounded.
// Owned by the optimiser; the parameters are the model's.
#pragma once

#include <vector>

#include "nsa/torch.h"

namespace nsa {

class MasterWeights {
 public:
  explicit MasterWeights(std::vector<torch::Tensor> parameters);

  // In the parameters' order; their gradients are set by take_gradients().
  [[nodiscard]] const std::vector<torch::Tensor>& tensors() const { return masters_; }

  // master.grad = parameter.grad / scale in float32; undefined where the parameter's is. The first call also takes the values:
  // what was broadcast to the model after it was made counts.
  void take_gradients(double scale);
  // The same with a scale on the masters' device, float32 [].
  void take_gradients(const torch::Tensor& scale);
  void round_to_parameters();
  // Puts back what a snapshot kept, in the parameters' order.
  void load(const std::vector<torch::Tensor>& masters);

 private:
  [[nodiscard]] std::vector<torch::Tensor> taken_gradients();

  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> masters_;
  bool taken_ = false;
};

}  // namespace nsa
