// The launcher's own process, under a keeper (keeper.h): what it leaves behind on this machine ends with it, and with the
// controller. It gets the address and the token of its case in its environment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

#include "harness/run/processes/spawn_process.h"

namespace harness {

struct LauncherEnd {
  ExitStatus status;
  bool asked = false;  // it did not end by itself
};

class Launcher {
 public:
  // Throws: nsa::Error as Process::spawn() does.
  explicit Launcher(const ProcessRequest& keeper);
  // All that is left of it ends, within a bounded time.
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  void add_to(std::vector<pollfd>& waited) const;
  // How it ended, once it has, and nothing of it is left on this machine.
  const std::optional<ExitStatus>& end();
  // "exited with 1". REQUIRES: end().
  [[nodiscard]] std::string told_end() const;
  // It has ended so long ago that whoever it started must have been told by now.
  [[nodiscard]] bool gone_for_long();
  // Waits until it has ended by itself, or `within_ms` are over; then it is ended.
  LauncherEnd wait(std::int64_t within_ms);

 private:
  Process keeper_;
  bool keeper_ended_ = false;  // before the launcher
  std::optional<ExitStatus> end_;
  std::int64_t ended_ms_ = 0;
};

}  // namespace harness
