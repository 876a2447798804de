#include "harness/run/processes/left_behind.h"

#include <algorithm>
#include <csignal>
#include <set>
#include <unistd.h>

#include "harness/run/clock.h"
#include "harness/run/looks/proc_look.h"
#include "harness/run/processes/kill_exactly.h"

namespace harness {
namespace {

constexpr int kRoundUs = 1'000;
// On a machine where somebody starts processes all the time, so many looks that find nothing are enough: one finds a process that
// lives for a tenth of a millisecond more often than not.
constexpr int kLooksAmongOthers = 40;

// The newest come first: of processes that start each other, the last one is about to be gone.
std::set<std::string> kill_marked(const CaseMark& mark) {
  std::set<std::string> names;
  for (const pid_t pid : process_ids()) {
    if (pid == getpid()) continue;
    const Target target(pid);
    if (!has_mark(pid, mark)) continue;
    const auto state = read_process_state(pid);
    target.signal(SIGKILL);
    if (state && state->state != 'Z') names.insert(state->name);
  }
  return names;
}

}  // namespace

// A look that finds nothing tells that nothing is there only if no process began during the look.
LeftBehind end_left_behind(const CaseMark& mark, int within_ms) {
  std::set<std::string> all;
  std::set<std::string> found;
  const std::int64_t until_ms = monotonic_ms() + within_ms;
  for (int vain = 0; vain < kLooksAmongOthers && monotonic_ms() < until_ms;) {
    const std::string newest = newest_process();
    found = kill_marked(mark);
    all.insert(found.begin(), found.end());
    vain = found.empty() ? vain + 1 : 0;
    if (found.empty() && !newest.empty() && newest == newest_process()) break;
    if (!found.empty()) usleep(kRoundUs);
  }
  LeftBehind left;
  left.stayed.assign(found.begin(), found.end());
  std::set_difference(
      all.begin(), all.end(), found.begin(), found.end(), std::back_inserter(left.ended));
  return left;
}

}  // namespace harness
