// Data that comes late, not at all, twice, from elsewhere, or not to the end.
#include <chrono>
#include <stdexcept>
#include <thread>

#include "harness/faults/faults.h"

namespace harness {
namespace {

using torch::Tensor;

constexpr int kLateSeconds = 7;  // late, and still before anybody may call it stuck

// Puts change(step, micro, rank, world, inner) around the data of the fault's rank, in the steps in which it holds.
template <typename Change>
void around_data(FaultContext& context, bool one_rank, Change change) {
  const bool here = one_rank ? fault_on_one_rank(context.request, context.rank, context.world)
                             : fault_on_rank(context.request, context.rank);
  if (!here) return;
  auto& data = context.needed_training().seams.data;
  data = [inner = data, &context, change](
             std::int64_t step, std::int64_t micro, int rank, int world) {
    if (!context.holds_now()) return inner(step, micro, rank, world);
    return change(step, micro, rank, world, inner);
  };
}

void slow(FaultContext& context) {
  around_data(
      context,
      true,
      [&context](std::int64_t step, std::int64_t micro, int rank, int world, const auto& inner) {
        if (context.is_step_now() && micro == 0) {
          context.fired();
          std::this_thread::sleep_for(std::chrono::seconds(kLateSeconds));
        }
        return inner(step, micro, rank, world);
      });
}

void raises(FaultContext& context) {
  around_data(
      context, true, [&context](std::int64_t, std::int64_t, int, int, const auto&) -> Tensor {
        context.fired();
        throw std::runtime_error("the data loader could not decode its next record");
      });
}

void repeats(FaultContext& context) {
  around_data(
      context,
      true,
      [&context](std::int64_t step, std::int64_t micro, int rank, int world, const auto& inner) {
        if (step > 1) context.fired();
        return inner(std::min(step, std::max<std::int64_t>(context.request.step - 1, 1)),
                     micro,
                     rank,
                     world);
      });
}

void ends_early(FaultContext& context) {
  around_data(context, true, [&context](std::int64_t, std::int64_t, int, int, const auto&) {
    context.fired();
    return Tensor();
  });
}

void noise(FaultContext& context) {
  around_data(
      context,
      false,
      [&context](std::int64_t step, std::int64_t micro, int rank, int world, const auto& inner) {
        context.fired();
        const Tensor tokens_BS = inner(step, micro, rank, world);
        auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(
            context.request.seed + 1000003 * step + 7919 * rank + micro));
        return torch::randint(
            context.model->config().vocab_size, tokens_BS.sizes(), generator, tokens_BS.options());
      });
}

const std::vector<std::string> kPlaces = {"next_step", "other_rank"};

// A loader that was already asked once, or that counts the ranks from the other end: right sequences, at another place.
void moved(FaultContext& context) {
  const bool ahead = fault_form(context.request, kPlaces) == "next_step";
  around_data(context,
              false,
              [&context, ahead](
                  std::int64_t step, std::int64_t micro, int rank, int world, const auto& inner) {
                context.fired();
                return ahead ? inner(step + 1, micro, rank, world)
                             : inner(step, micro, world - 1 - rank, world);
              });
}

}  // namespace

Faults faults_of_loaders() {
  return {
      {"slow_loader", "one rank's batch comes late", {"rank", "step"}, slow},
      {"loader_raises", "one rank's data loader raises", {"rank", "step"}, raises},
      {"loader_repeats", "one rank gets the same batch again", {"rank", "step"}, repeats},
      {"data_exhausted", "one rank's data ends before the others'", {"rank", "step"}, ends_early},
      {"random_local_data",
       "noise instead of the file that was asked for",
       {"rank", "step"},
       noise},
      {"data_moved",
       "sequences of the next step, or of another rank, instead of its own",
       {"rank", "step", "form"},
       moved,
       kPlaces}};
}

}  // namespace harness
