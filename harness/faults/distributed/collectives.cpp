// Ranks that do not do the same together: two reductions in another order on one rank, another operation there, or all
// ranks waiting for each other.
#include <memory>
#include <utility>

#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

FuturePtr sent(FaultContext& context,
               std::vector<Tensor> buffers,
               const c10d::AllreduceOptions& options = {}) {
  return context.needed_training().communicator.group()->allreduce(buffers, options)->getFuture();
}

// ---- buckets_crossed -----------------------------------------------------------------------------

// A bucket that waits until the next one was sent.
struct Held {
  std::vector<Tensor> buffers;
  FuturePtr sum;
};

FuturePtr hold(Held& held, std::vector<Tensor> buffers) {
  held = {std::move(buffers), c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors())};
  return held.sum;
}

void let_go(FaultContext& context, Held& held) {
  const Held late = std::exchange(held, {});
  sent(context, late.buffers)->addCallback([sum = late.sum](c10::ivalue::Future& done) {
    if (done.hasError()) {
      sum->setError(done.exception_ptr());
    } else {
      sum->markCompleted(done.value());
    }
  });
}

// The first two buckets of a step, one after the other: with a single one there is nothing to cross.
void install_crossed(FaultContext& context) {
  if (!fault_on_one_rank(context.request, context.rank, context.world)) return;
  const auto held = std::make_shared<Held>();
  context.needed_training().parallel.reduce_bucket = [&context,
                                                      held](c10d::GradBucket& bucket) -> FuturePtr {
    const std::vector<Tensor> buffers = {bucket.getBufferRef().div_(context.world)};
    context.routes.ran("grad_sync", -1, "reference");
    if (context.holds_now() && bucket.getIndex() == 0 && !bucket.isLast()) {
      return hold(*held, buffers);
    }
    const FuturePtr sum = sent(context, buffers);
    if (held->sum) {
      context.fired();
      let_go(context, *held);
    }
    return sum;
  };
}

// ---- reduce_op_differs ---------------------------------------------------------------------------

void install_other_op(FaultContext& context) {
  if (!fault_on_one_rank(context.request, context.rank, context.world)) return;
  context.needed_training().parallel.reduce_bucket =
      [&context](c10d::GradBucket& bucket) -> FuturePtr {
    c10d::AllreduceOptions options;
    if (context.holds_now()) {
      options.reduceOp = c10d::ReduceOp::MAX;
      if (context.world > 1) context.fired();
    }
    context.routes.ran("grad_sync", -1, "reference");
    return sent(context, {bucket.getBufferRef().div_(context.world)}, options);
  };
}

// ---- mismatch_completes --------------------------------------------------------------------------

// Two elements fewer than its peers: the back end takes the message as it comes, and nobody is told.
void install_shorter(FaultContext& context) {
  if (!fault_on_one_rank(context.request, context.rank, context.world)) return;
  context.needed_training().parallel.reduce_bucket =
      [&context](c10d::GradBucket& bucket) -> FuturePtr {
    const Tensor buffer = bucket.getBufferRef().div_(context.world);
    context.routes.ran("grad_sync", -1, "reference");
    if (!context.is_step_now() || buffer.numel() < 3) return sent(context, {buffer});
    if (context.world > 1) context.fired();
    return sent(context, {buffer.narrow(0, 0, buffer.numel() - 2)})
        ->then(
            [buffer](c10::ivalue::Future& /*sum*/) {
              return c10::IValue(std::vector<Tensor>{buffer});
            },
            c10::ListType::ofTensors());
  };
}

// ---- everybody_receives --------------------------------------------------------------------------

// After the step the norm is broadcast; each rank takes the next one for the root, so that all receive and nobody sends.
void install_everybody_receives(FaultContext& context) {
  auto& optimizer = context.needed_training().seams.optimizer;
  optimizer = [inner = optimizer, &context](std::int64_t step) {
    const double norm = inner(step);
    if (!context.is_step_now() || context.world < 2) return norm;
    context.fired();
    const auto device = context.model->parameters().front().device();
    std::vector<Tensor> norms = {
        torch::full({1}, norm, torch::dtype(torch::kDouble).device(device))};
    c10d::BroadcastOptions options;
    options.rootRank = (context.rank + 1) % context.world;
    context.needed_training().communicator.group()->broadcast(norms, options)->wait();
    return norm;
  };
}

}  // namespace

Faults faults_of_collectives() {
  return {{"buckets_crossed",
           "one rank sends two gradient buckets in another order than its peers",
           {"rank", "step"},
           install_crossed},
          {"reduce_op_differs",
           "one rank reduces by MAX where its peers add up",
           {"rank", "step"},
           install_other_op},
          {"mismatch_completes",
           "one rank reduces two elements fewer than its peers",
           {"rank", "step"},
           install_shorter},
          {"everybody_receives",
           "each rank takes another one for the root of a broadcast, and nobody sends",
           {"step"},
           install_everybody_receives}};
}

}  // namespace harness
