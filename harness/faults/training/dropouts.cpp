// Masks of residual dropout that are not those they should be: the same on every rank, since all of them were seeded alike, and
// another in the recomputation of a checkpointed layer, since the state of the generator was not brought back.
#include <algorithm>

#include "harness/faults/faults.h"
#include "nsa/train/activation_checkpoint.h"

namespace harness {
namespace {

// ---- rng_same_on_ranks ---------------------------------------------------------------------------

void install_same(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) return;
  auto& kept = context.needed_training().seams.kept;
  kept = [inner = kept, &context](nsa::DropoutPlace place, std::int64_t width) {
    if (!context.holds_now() || place.rank == 0) return inner(place, width);
    context.fired();
    place.rank = 0;
    return inner(place, width);
  };
}

// ---- rng_recompute -------------------------------------------------------------------------------

void install_recompute(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) return;
  const std::vector<int> layers =
      fault_layers(context.request, static_cast<int>(context.model->config().n_layers));
  auto& kept = context.needed_training().seams.kept;
  kept = [inner = kept, layers, &context](nsa::DropoutPlace place, std::int64_t width) {
    const bool here = std::find(layers.begin(), layers.end(), place.layer) != layers.end();
    if (!here || !nsa::is_recomputing() || !context.holds_now()) return inner(place, width);
    context.fired();
    ++place.step;  // what the generator gives when it goes on
    return inner(place, width);
  };
}

}  // namespace

Faults faults_of_dropouts() {
  return {
      {"rng_same_on_ranks", "every rank drops what rank 0 drops", {"rank", "step"}, install_same},
      {"rng_recompute",
       "a checkpointed layer drops others when it is computed again",
       {"layers", "rank", "step"},
       install_recompute}};
}

}  // namespace harness
