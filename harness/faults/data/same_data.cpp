// A rank reads the batch of another one: all ranks but the first by default. Strength is the share of the batch's sequences.
#include "harness/faults/faults.h"

namespace harness {
namespace {

void install_same_data(FaultContext& context) {
  const int source = context.request.rank.value_or(1) == 0 ? 1 : 0;
  if (context.rank == source || context.world < 2 ||
      !fault_on_rank(context.request, context.rank)) {
    return;
  }
  context.needed_training().seams.data =
      [inner = context.needed_training().seams.data, source, &context](
          std::int64_t step, std::int64_t micro, int rank, int world) {
        auto tokens_BS = inner(step, micro, rank, world);
        if (!context.holds_now()) {
          return tokens_BS;
        }
        const auto other_BS = inner(step, micro, source, world);
        tokens_BS = tokens_BS.clone();
        for (std::int64_t row = 0; row < tokens_BS.size(0); ++row) {
          if (row == 0 ||
              draw_unit(context.request.seed, "sequence", row) < context.request.strength) {
            tokens_BS[row] = other_BS[row];
            context.fired();
          }
        }
        return tokens_BS;
      };
}

}  // namespace

Faults faults_of_same_data() {
  return {
      {"same_data", "ranks read the same batch", {"rank", "step", "strength"}, install_same_data}};
}

}  // namespace harness
