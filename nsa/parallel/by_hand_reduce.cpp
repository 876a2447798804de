#include "nsa/parallel/by_hand_reduce.h"

namespace nsa {

void reduce_by_hand(DataParallelOptions& options, Communicator& communicator, Routes& routes) {
  options.policy.reduces = [](bool last_micro) { return last_micro; };
  options.policy.queues_delayed = [](bool reducing) { return reducing; };
  options.policy.hides_first_micro_batches = [] { return true; };
  options.reduce_bucket = [&communicator, &routes](c10d::GradBucket& bucket) {
    routes.ran("grad_sync", -1, "by_hand");
    std::vector<torch::Tensor> share = {bucket.getBufferRef().mul_(1.0 / communicator.world())};
    return communicator.group()->allreduce(share)->getFuture();
  };
}

}  // namespace nsa
