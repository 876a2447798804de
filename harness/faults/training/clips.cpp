// Gradients clipped by another norm than theirs, or not at all. Seen: every rank takes the norm of its own gradients; squares
// are added up over ranks that hold the same sum already; a coefficient is computed and multiplied with nothing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

// What wrong clipping makes of the right norm.
struct Clipped {
  double told = 0.0;  // the norm that is reported
  double coefficient = 1.0;
};

double max_norm(const FaultContext& context) {
  return context.session.the_case().scenario.training.optimizer.max_norm;
}

// docs/data.md: min(1, max_norm / (norm + 1e-6)).
double coefficient_of(const FaultContext& context, double norm) {
  return std::min(1.0, max_norm(context) / (norm + 1e-6));
}

double norm_of(const Tensors& updated) {
  return nsa::clip_gradients(updated, std::numeric_limits<double>::infinity());
}

void scale_gradients(const Tensors& updated, double coefficient) {
  const torch::NoGradGuard no_graph;
  for (const Tensor& tensor : updated) {
    if (tensor.grad().defined()) tensor.grad().mul_(coefficient);
  }
}

// Puts wrong(norm) in place of the optimiser's own clipping, in the steps in which the fault holds.
template <typename Wrong>
void around_clip(FaultContext& context, Wrong wrong) {
  auto& clip = context.needed_training().optimizer.clip();
  clip = [&context, wrong](const Tensors& updated) {
    if (!context.holds_now()) return nsa::clip_gradients(updated, max_norm(context));
    const double norm = norm_of(updated);
    const Clipped clipped = wrong(norm);
    const double right = coefficient_of(context, norm);
    // Not by rounding alone, and not where the step is left out.
    const bool other = std::abs(clipped.coefficient - right) > 1e-4 * right;
    if (other && std::isfinite(norm)) context.fired();
    if (clipped.coefficient < 1.0) scale_gradients(updated, clipped.coefficient);
    return clipped.told;
  };
}

// ---- clip_local_norm -----------------------------------------------------------------------------

FuturePtr reduced(FaultContext& context, c10d::GradBucket& bucket) {
  std::vector<Tensor> buffers = {bucket.getBufferRef().div_(context.world)};
  context.routes.ran("grad_sync", -1, "reference");
  return context.needed_training().communicator.group()->allreduce(buffers)->getFuture();
}

// The norm is taken of what this rank's backward left in the buckets.
void install_local(FaultContext& context) {
  auto& reduce = context.needed_training().parallel.reduce_bucket;
  const auto squares = std::make_shared<std::map<std::int64_t, double>>();  // by step
  reduce = [&context, squares, inner = reduce](c10d::GradBucket& bucket) {
    (*squares)[context.session.progress().step()] +=
        bucket.getBuffer().to(torch::kDouble).square().sum().item<double>();
    return inner ? inner(bucket) : reduced(context, bucket);
  };
  around_clip(context, [&context, squares](double /*norm*/) {
    const double scale = context.needed_training().optimizer.loss_scale();
    const double local = std::sqrt((*squares)[context.session.progress().step()]) / scale;
    return Clipped{local, coefficient_of(context, local)};
  });
}

// ---- clip_double_norm, clip_discarded ------------------------------------------------------------

void install_double(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) return;
  around_clip(context, [&context](double norm) {
    const double twice = norm * std::sqrt(static_cast<double>(context.world));
    return Clipped{twice, coefficient_of(context, twice)};
  });
}

void install_discarded(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) return;
  around_clip(context, [](double norm) { return Clipped{norm, 1.0}; });
}

}  // namespace

Faults faults_of_clips() {
  return {{"clip_local_norm",
           "gradients are clipped by the norm of the rank's own, before the reduction",
           {"step"},
           install_local},
          {"clip_double_norm",
           "the squares of reduced gradients are added up over the ranks for the norm",
           {"rank", "step"},
           install_double},
          {"clip_discarded",
           "the clip coefficient is computed and never applied",
           {"rank", "step"},
           install_discarded}};
}

}  // namespace harness
