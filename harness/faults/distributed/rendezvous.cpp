// Ranks that never meet: one waits for something else before it joins, or all wait for one that nobody started.
#include <condition_variable>
#include <mutex>

#include "harness/faults/faults.h"

namespace harness {
namespace {

const std::vector<std::string> kNeverMeet = {"rank_absent", "one_more_expected"};

// A lock that nobody gives back.
[[noreturn]] void wait_for_nobody() {
  std::mutex mutex;
  std::condition_variable given_back;
  std::unique_lock lock(mutex);
  while (true) given_back.wait(lock);
}

void keep_apart(JoinContext& context) {
  const std::string form = fault_form(context.request, kNeverMeet);
  const int rank = context.session.options().rank;
  if (form == "one_more_expected") {
    context.fired();
    ++context.options.world;
  } else if (fault_on_one_rank(context.request, rank, context.session.options().world)) {
    context.fired();
    wait_for_nobody();
  }
}

}  // namespace

Faults faults_of_rendezvous() {
  Fault never_meet{"rendezvous_incomplete",
                   "one rank never joins its peers, or all wait for one more than there are",
                   {"rank", "form"},
                   [](FaultContext& /*context*/) {},
                   kNeverMeet};
  never_meet.before_joining = keep_apart;
  return {never_meet};
}

}  // namespace harness
