// One rank is killed, or stopped by a signal, in the middle of a step: in its forward, backward or optimiser phase, drawn.
#include <csignal>
#include <unistd.h>

#include "harness/faults/faults.h"

namespace harness {
namespace {

template <int kSignal>
void install_end(FaultContext& context) {
  if (!fault_on_one_rank(context.request, context.rank, context.world)) {
    return;
  }
  const std::string when = fault_form(context.request, {"forward", "backward", "optimizer"});
  context.session.on_phase([&context, when](const std::string& phase, std::int64_t step) {
    if (phase == when && step == context.request.step) {
      context.fired();
      kill(getpid(), kSignal);
    }
  });
}

const std::vector<std::string> kEndUses = {"rank", "step", "form"};
const std::vector<std::string> kPhases = {"forward", "backward", "optimizer"};

}  // namespace

Faults faults_of_rank_ends() {
  return {{"rank_killed", "one rank gets SIGKILL", kEndUses, install_end<SIGKILL>, kPhases},
          {"rank_stopped", "one rank gets SIGSTOP", kEndUses, install_end<SIGSTOP>, kPhases}};
}

}  // namespace harness
