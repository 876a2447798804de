// What goes wrong only where nobody looks: a race that the waits of close watching hide. The level of observation stands for the
// moment that a wait takes.
#include <condition_variable>
#include <mutex>

#include "harness/faults/faults.h"

namespace harness {
namespace {

bool is_held_up(const FaultContext& context) {
  return context.session.observe() == kWatchValues;
}

// The wake-up came before anybody waited for it, and is lost.
[[noreturn]] void wait_for_ever() {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable nobody_notifies;
  while (true) nobody_notifies.wait(lock);
}

void lose_wake_up(FaultContext& context) {
  if (!fault_on_one_rank(context.request, context.rank, context.world)) return;
  context.session.on_phase([&context](const std::string& phase, std::int64_t step) {
    if (phase != "optimizer" || step != context.request.step) return;
    context.fired();
    if (!is_held_up(context)) wait_for_ever();
  });
}

// The optimiser reads a gradient before it is there.
void read_too_early(FaultContext& context) {
  if (!fault_on_rank(context.request, context.rank)) return;
  auto& optimizer = context.needed_training().seams.optimizer;
  optimizer = [inner = optimizer, &context](std::int64_t step) {
    if (context.holds_now()) {
      context.fired();
      const torch::NoGradGuard no_grad;
      auto first = context.model->parameters().front();
      if (!is_held_up(context) && first.grad().defined()) first.mutable_grad().zero_();
    }
    return inner(step);
  };
}

void install_unwatched(FaultContext& context) {
  const bool hangs = fault_form(context.request, {"hang", "number"}) == "hang";
  hangs ? lose_wake_up(context) : read_too_early(context);
}

}  // namespace

Faults faults_of_unwatched() {
  return {{"observer",
           "a hang, or a wrong number, that is gone when ranks are watched closely",
           {"rank", "step", "form"},
           install_unwatched,
           {"hang", "number"}}};
}

}  // namespace harness
