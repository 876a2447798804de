#include "nsa/parallel/bf16_compress.h"

namespace nsa {

ReduceBucket bf16_compressed(Communicator& communicator, Routes& routes) {
  return [&communicator, &routes](c10d::GradBucket& bucket) {
    routes.ran("grad_sync", -1, "bf16");
    const torch::Tensor buffer = bucket.getBuffer();
    std::vector<torch::Tensor> narrow = {buffer.to(torch::kBFloat16).div_(communicator.world())};
    return communicator.group()->allreduce(narrow)->getFuture()->then(
        [buffer](c10::ivalue::Future& sum) {
          buffer.copy_(sum.value().toTensorVector().at(0));
          return c10::IValue(std::vector<torch::Tensor>{buffer});
        },
        c10::ListType::ofTensors());
  };
}

}  // namespace nsa
