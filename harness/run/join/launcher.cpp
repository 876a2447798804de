#include "harness/run/join/launcher.h"

#include <csignal>
#include <unistd.h>

#include "harness/run/clock.h"
#include "harness/run/processes/keeper.h"
#include "harness/run/processes/process_end.h"

namespace harness {
namespace {

constexpr std::int64_t kKeeperEndsMs = 10'000;  // it ends the tree in three seconds
constexpr std::int64_t kToldMs = 5'000;         // an agent ends its rank in less than one
constexpr int kLauncherRoundMs = 20;

}  // namespace

Launcher::Launcher(const ProcessRequest& keeper) : keeper_(Process::spawn(keeper)) {}

Launcher::~Launcher() {
  (void)wait(0);
}

void Launcher::add_to(std::vector<pollfd>& waited) const {
  if (!keeper_.reaped()) waited.push_back({keeper_.pidfd(), POLLIN, 0});
}

const std::optional<ExitStatus>& Launcher::end() {
  if (!end_ && keeper_.exited()) {
    end_ = keeper_.reap();
    std::string heard;
    const KeeperSaid said = hear_keeper(keeper_.events(), heard);
    keeper_ended_ = !said.end;
    if (said.end) end_ = said.end;
    ended_ms_ = monotonic_ms();
  }
  return end_;
}

std::string Launcher::told_end() const {
  const std::string end = harness::told_end(end_);
  return keeper_ended_ ? "was lost: the process of nsa-harness that keeps it " + end : end;
}

bool Launcher::gone_for_long() {
  return end() && monotonic_ms() - ended_ms_ >= kToldMs;
}

LauncherEnd Launcher::wait(std::int64_t within_ms) {
  const std::int64_t asked_ms = monotonic_ms() + within_ms;
  const std::int64_t until_ms = asked_ms + kKeeperEndsMs;
  bool asked = false;
  while (!end() && monotonic_ms() < until_ms) {
    if (!asked && monotonic_ms() >= asked_ms) {
      keeper_.signal(SIGTERM);
      asked = true;
    }
    pollfd ended{keeper_.pidfd(), POLLIN, 0};
    (void)poll(&ended, 1, kLauncherRoundMs);
  }
  return {end_.value_or(ExitStatus{}), asked};  // else the destructor of its process ends it
}

}  // namespace harness
