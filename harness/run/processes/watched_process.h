// One process of a case, as a Supervision sees it: what it writes, how it is seen from outside, how it ended, and the signals that
// reach it. A LocalProcess was started by this program; a FoundProcess by a command of the user's; a process on another host is
// reached through an agent beside it (join/joined_process.h). Owned by its Supervision.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/types.h>
#include <vector>

#include "harness/evidence/event.h"
#include "harness/evidence/line_reader.h"
#include "harness/run/looks/machine_state.h"
#include "harness/run/looks/outside.h"
#include "harness/run/processes/spawn_process.h"

namespace harness {

// What a function with a body says holds of a process of this machine.
class WatchedProcess : public Outside {
 public:
  using OnLook = std::function<void(Observation seen)>;

  [[nodiscard]] virtual pid_t pid() const = 0;  // where it runs
  virtual void add_to(std::vector<pollfd>& waited) const = 0;
  // What has come since: what it wrote on fd 3, and looks that were asked for. Never waits, and takes in a bounded amount.
  virtual void read(const LineReader::OnLine& on_line, const OnLook& on_look) = 0;

  [[nodiscard]] virtual bool has_ended() const = 0;
  // How it ended, once it has; nothing where nothing tells. From this call on its pid means nothing.
  [[nodiscard]] virtual const std::optional<ExitStatus>& end() = 0;
  [[nodiscard]] virtual bool silent()
      const = 0;  // it has ended, and so has all that could still be heard of it
  // Why nothing can be known of it any more; "" as long as it can.
  [[nodiscard]] virtual std::string lost() const { return ""; }
  // Whoever started it (a launcher) asked for its end.
  [[nodiscard]] virtual bool ended_by_launcher() const { return false; }
  // Nothing where whoever asks must tell it from the memory of the whole case.
  [[nodiscard]] virtual std::optional<MemoryKill> memory_kill() const { return std::nullopt; }
  [[nodiscard]] virtual std::int64_t peak_resident_bytes() const = 0;

  virtual void signal(int number) = 0;        // to the process alone
  virtual void signal_group(int number) = 0;  // to it and what it started
  virtual void close() = 0;                   // nothing it says is wanted any more

  [[nodiscard]] std::optional<ProcessState> state() const override {
    auto state = read_process_state(pid());
    if (state) state->switches = main_thread_switches_of(pid());
    return state;
  }
  std::optional<Observation> look(int process, int look, const Processes& all) override {
    return look_at(process, look, pid(), all);
  }
};

// A process that this program started.
class LocalProcess : public WatchedProcess {
 public:
  // Throws: nsa::Error as Process::spawn() does.
  explicit LocalProcess(const ProcessRequest& request);

  [[nodiscard]] pid_t pid() const override { return process_.pid(); }
  void add_to(std::vector<pollfd>& waited) const override;
  void read(const LineReader::OnLine& on_line, const OnLook& on_look) override;
  [[nodiscard]] bool has_ended() const override { return end_ || process_.exited(); }
  [[nodiscard]] const std::optional<ExitStatus>& end() override;
  [[nodiscard]] bool silent() const override;
  [[nodiscard]] std::int64_t peak_resident_bytes() const override;
  void signal(int number) override { process_.signal(number); }
  void signal_group(int number) override { process_.signal_group(number); }
  void close() override { process_.close_events(); }

 private:
  Process process_;
  LineReader lines_;
  std::optional<ExitStatus> end_;
};

// A process that descends from the keeper of a command (keeper.h): signals reach it through the keeper, and what it writes comes
// through Callers.
class FoundProcess : public WatchedProcess {
 public:
  explicit FoundProcess(pid_t pid);

  [[nodiscard]] pid_t pid() const override { return pid_; }
  void add_to(std::vector<pollfd>& waited) const override;
  void read(const LineReader::OnLine& /*on_line*/, const OnLook& /*comes at once*/) override {}
  [[nodiscard]] bool has_ended() const override;
  [[nodiscard]] const std::optional<ExitStatus>& end() override;
  [[nodiscard]] bool silent() const override { return has_ended(); }
  [[nodiscard]] std::int64_t peak_resident_bytes() const override;
  void signal(int /*number*/) override {}
  void signal_group(int /*number*/) override {}
  void close() override { pidfd_.reset(); }

 private:
  pid_t pid_;
  Fd pidfd_;  // closed once it has ended
  std::optional<ExitStatus> end_;
};

}  // namespace harness
