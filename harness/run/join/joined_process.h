// A rank that a launcher started, on this host or another: an agent beside it says what it does and does to it what is asked
// (agent.h). Nothing is known of it once the link to the agent is lost.
#pragma once

#include <memory>
#include <string>

#include "harness/run/join/launcher.h"
#include "harness/run/join/link.h"
#include "harness/run/join/messages.h"
#include "harness/run/processes/watched_process.h"

namespace harness {

class JoinedProcess : public WatchedProcess {
 public:
  // `name`: in errors. `launcher`: that of all ranks of the case. `deadline_ms`: of a link on which nothing comes.
  JoinedProcess(std::string name,
                std::unique_ptr<Link> link,
                std::shared_ptr<Launcher> launcher,
                std::int64_t deadline_ms);

  // Once its agent was told to start it: waits for its pid. Throws: nsa::Error where there is none.
  void await_start(std::int64_t until_ms);

  [[nodiscard]] pid_t pid() const override { return pid_; }
  void add_to(std::vector<pollfd>& waited) const override { link_->add_to(waited); }
  void read(const LineReader::OnLine& on_line, const OnLook& on_look) override;
  [[nodiscard]] bool has_ended() const override { return end_.has_value(); }
  [[nodiscard]] const std::optional<ExitStatus>& end() override { return status_; }
  [[nodiscard]] bool silent() const override { return end_.has_value(); }
  [[nodiscard]] std::string lost() const override;
  [[nodiscard]] bool ended_by_launcher() const override { return end_ && end_->by_launcher; }
  [[nodiscard]] std::optional<MemoryKill> memory_kill() const override {
    return end_ ? end_->memory : MemoryKill::none;
  }
  [[nodiscard]] std::int64_t peak_resident_bytes() const override {
    return end_ ? end_->status.rss_peak_bytes : 0;
  }
  void signal(int number) override;
  void signal_group(int number) override;
  void close() override;

  [[nodiscard]] std::optional<ProcessState> state() const override { return state_; }
  std::optional<Observation> look(int process, int look, const Processes& all) override;

 private:
  [[noreturn]] void refuse(std::string_view why) const;
  void on_answer(std::string_view line);
  void on_message(const Message& message, const LineReader::OnLine& on_line, const OnLook& on_look);

  std::string name_;
  std::unique_ptr<Link> link_;
  pid_t pid_ = 0;
  std::vector<std::string> early_;  // messages that came with its pid
  std::shared_ptr<Launcher> launcher_;
  std::int64_t deadline_ms_;
  std::optional<ProcessState> state_;
  std::optional<End> end_;
  std::optional<ExitStatus> status_;  // of end_
};

}  // namespace harness
