// The reduction of gradients gone wrong: never queued, queued too early, gone around, done too often, without the division, or
// lost with the hooks it depends on.
#include <utility>

#include "harness/faults/faults.h"

namespace harness {
namespace {

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

void no_delay(FaultContext& context) {
  context.needed_training().parallel.policy.queues_delayed = [&context](bool /*reduces*/) {
    context.fired();
    return false;
  };
}

// The first step's micro-batches are all counted; later steps wait for as many backwards in the one that reduces.
void counts_micro_batches(FaultContext& context) {
  context.needed_training().parallel.policy.hides_first_micro_batches = [&context] {
    context.fired();
    return false;
  };
}

void bypass(FaultContext& context) {
  context.needed_training().parallel.policy.reduces = [&context](bool last_micro) {
    if (!last_micro || !context.holds_now()) return last_micro;
    context.fired();
    return false;
  };
}

void always(FaultContext& context) {
  context.needed_training().parallel.policy.reduces = [&context](bool last_micro) {
    if (last_micro || !context.holds_now()) return last_micro;
    context.fired();
    return true;
  };
}

void no_division(FaultContext& context) {
  context.needed_training().parallel.reduce_bucket =
      [&context](c10d::GradBucket& bucket) -> FuturePtr {
    std::vector<torch::Tensor> buffers = {bucket.getBufferRef()};
    if (context.holds_now()) {
      if (context.world > 1) context.fired();
    } else {
      buffers.front().div_(context.world);
    }
    context.routes.ran("grad_sync", -1, "reference");
    return context.needed_training().communicator.group()->allreduce(buffers)->getFuture();
  };
}

// Sums travel in bf16 although nobody asked for it, or are made of addends that were rounded to it. It counts itself as the
// Reducer's own reduction.
void reduce_narrow(FaultContext& context) {
  const bool sent = fault_form(context.request, {"sent", "rounded"}) == "sent";
  context.needed_training().parallel.reduce_bucket = [&context,
                                                      sent](c10d::GradBucket& bucket) -> FuturePtr {
    torch::Tensor buffer = bucket.getBufferRef().div_(context.world);
    std::vector<torch::Tensor> travels = {buffer};
    if (context.holds_now()) {
      const torch::Tensor narrow = buffer.to(torch::kBFloat16);
      if (!narrow.to(buffer.scalar_type()).equal(buffer)) context.fired();
      travels.front() = sent ? narrow : buffer.copy_(narrow);
    }
    context.routes.ran("grad_sync", -1, "reference");
    return context.needed_training().communicator.group()->allreduce(travels)->getFuture()->then(
        [buffer](c10::ivalue::Future& sum) {
          buffer.copy_(sum.value().toTensorVector().at(0));
          return c10::IValue(std::vector<torch::Tensor>{buffer});
        },
        c10::ListType::ofTensors());
  };
}

// Before the last micro-batch of one step the buckets are built anew, and what was accumulated in the old ones is lost.
void lose_accumulated(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) return;
  context.needed_training().parallel.policy.reduces = [&context](bool last_micro) {
    if (!last_micro || !context.is_step_now()) return last_micro;
    const torch::NoGradGuard no_graph;
    for (const torch::Tensor& parameter : context.model->parameters()) {
      if (!parameter.grad().defined()) continue;
      parameter.grad().zero_();
      context.fired();
    }
    return last_micro;
  };
}

// The second registration of a communication hook replaces the first. Where none was asked for, none is lost.
void drop_hook(FaultContext& context) {
  nsa::ReduceBucket& hook = context.needed_training().parallel.reduce_bucket;
  if (hook) context.fired();
  hook = nullptr;
}

// The size that was asked for never reaches the Reducer. Where the usual one was asked for, nothing is lost.
void forget_bucket_size(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) return;
  double& asked = context.needed_training().parallel.bucket_mb;
  const double usual = nsa::DataParallelOptions().bucket_mb;
  if (std::exchange(asked, usual) != usual) context.fired();
}

// Parameters that are converted and back have another gradient accumulator, without the Reducer's hook.
void lose_hooks(FaultContext& context) {
  context.needed_training().after_wrapping = [&context] {
    std::int64_t index = 0;
    const auto parameters = context.model->named_parameters();
    const auto certain =
        draw_index(context.request.seed, "parameter", static_cast<int>(parameters.size()));
    for (const auto& item : parameters) {
      torch::Tensor parameter = item.value();
      const bool drawn = index == certain ||
                         draw_unit(context.request.seed, "lost", index) < context.request.strength;
      ++index;
      if (!drawn) continue;
      context.fired();
      const auto dtype = parameter.scalar_type();
      const torch::Tensor value = parameter.detach().clone();
      parameter.set_data(value.to(dtype == torch::kDouble ? torch::kFloat : torch::kDouble));
      parameter.set_data(value);
    }
  };
}

// One rank decays its weights a second time. Strength is the share of its parameters.
void decays_twice(FaultContext& context) {
  if (!fault_on_one_rank(context.request, context.rank, context.world)) return;
  auto& optimizer = context.needed_training().seams.optimizer;
  optimizer = [inner = optimizer, &context](std::int64_t step) {
    const double norm = inner(step);
    if (!context.holds_now()) return norm;
    const auto& config = context.session.the_case().scenario.training.optimizer;
    const torch::NoGradGuard no_graph;
    std::int64_t index = 0;
    for (const torch::Tensor& parameter : context.needed_training().optimizer.updated()) {
      const bool drawn = index == 0 || draw_unit(context.request.seed, "decayed", index) <
                                           context.request.strength;
      ++index;
      if (!drawn) continue;
      context.fired();
      torch::Tensor(parameter).mul_(1.0 - config.lr * config.weight_decay);
    }
    return norm;
  };
}

}  // namespace

Faults faults_of_wrong_reductions() {
  return {
      {"static_no_delay", "the first reduction of a static graph is never queued", {}, no_delay},
      {"static_accum",
       "a static graph with accumulation stops reducing after its first step",
       {},
       counts_micro_batches},
      {"bypass_wrapper", "the forward goes past the reducer", {"step"}, bypass},
      {"no_sync_misplaced", "every micro-batch reduces its gradients", {"step"}, always},
      {"average_missing",
       "gradients are summed over the ranks and never divided",
       {"step"},
       no_division},
      {"reduce_low_precision",
       "gradients are reduced in bf16 although nobody asked for it",
       {"step", "form"},
       reduce_narrow,
       {"sent", "rounded"}},
      {"rebuild_loses_accumulated",
       "buckets that are built anew lose what was accumulated",
       {"rank", "step"},
       lose_accumulated},
      {"hook_dropped", "the communication hook that was asked for is lost", {}, drop_hook},
      {"bucket_size_lost",
       "the size of the gradient buckets that was asked for never reaches the reducer",
       {"rank"},
       forget_bucket_size},
      {"hook_lost",
       "parameters are re-typed after the reducer was built",
       {"strength"},
       lose_hooks},
      {"state_diverged",
       "one rank decays its weights twice",
       {"rank", "step", "strength"},
       decays_twice}};
}

}  // namespace harness
