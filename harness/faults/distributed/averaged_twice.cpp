// The reduced gradient is divided by the number of ranks a second time. Strength is the share of the buckets.
#include "harness/faults/faults.h"

namespace harness {
namespace {

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

bool holds_for(const FaultContext& context, const c10d::GradBucket& bucket) {
  const auto index = static_cast<std::int64_t>(bucket.getIndex());
  return context.holds_now() && (index == 0 || draw_unit(context.request.seed, "bucket", index) <
                                                   context.request.strength);
}

FuturePtr reduce(FaultContext& context, c10d::GradBucket& bucket) {
  std::vector<torch::Tensor> buffers = {bucket.getBufferRef().div_(context.world)};
  context.routes.ran("grad_sync", -1, "reference");
  const FuturePtr sum =
      context.needed_training().communicator.group()->allreduce(buffers)->getFuture();
  if (!holds_for(context, bucket)) {
    return sum;
  }
  if (context.world > 1) context.fired();
  return sum->then(
      [world = context.world](c10::ivalue::Future& future) {
        return c10::IValue(
            std::vector<torch::Tensor>{future.value().toTensorVector().at(0).div_(world)});
      },
      c10::ListType::ofTensors());
}

void install_second_average(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) {
    return;
  }
  context.needed_training().parallel.reduce_bucket = [&context](c10d::GradBucket& bucket) {
    return reduce(context, bucket);
  };
}

}  // namespace

Faults faults_of_averaged_twice() {
  return {{"averaged_twice",
           "gradients are divided by the number of ranks twice",
           {"rank", "step", "strength"},
           install_second_average}};
}

}  // namespace harness
