// What one worker process works with: its case, its place among the ranks, and its ways to record. Made in main, handed to
// the kind that runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/scenario/case.h"
#include "harness/worker/channel.h"
#include "harness/worker/heartbeat.h"
#include "harness/worker/record/artefact_out.h"
#include "harness/worker/work_counters.h"
#include "nsa/parallel/observed_backend.h"

namespace harness {

struct Fault;

struct WorkerOptions {
  std::string case_file;
  std::string folder;  // of the case; artefacts go below it
  int rank = 0;        // kTwin for the twin
  int world = 1;
  int port = 0;
  int listen_fd = -1;
  std::string store = "127.0.0.1";    // rank 0's address
  std::string address = "127.0.0.1";  // this rank's own
  std::int64_t clock_origin_ms = 0;
  int life = 0;  // 1: the ranks were ended and started again
};

class Session {
 public:
  Session(WorkerOptions options,
          Case the_case,
          Channel& channel,
          Progress& progress,
          HeartbeatThread& heartbeat);

  [[nodiscard]] const WorkerOptions& options() const { return options_; }
  [[nodiscard]] const Case& the_case() const { return case_; }
  [[nodiscard]] bool is_twin() const { return options_.rank == kTwin; }
  // How closely this process is watched (harness/scenario/scenario.h): the twin as closely as can be.
  [[nodiscard]] int observe() const;
  // Whether the values that this check judges are recorded.
  [[nodiscard]] bool wants_check(const std::string& name) const;
  Channel& channel() { return channel_; }
  Progress& progress() { return progress_; }
  HeartbeatThread& heartbeat() { return heartbeat_; }

  // The fault that the case asks for, or null; named in main, since a kind knows no list of faults.
  [[nodiscard]] const Fault* fault() const { return fault_; }
  void set_fault(const Fault* fault) { fault_ = fault; }

  // A phase begins: told to the progress counters, the channel, and whoever listens.
  void enter(const std::string& phase, std::int64_t step);
  void on_phase(std::function<void(const std::string& phase, std::int64_t step)> listener);
  void sample(const std::string& metric, std::int64_t step, double value);

  // This process's folder for one step, relative to the case's folder; made on first use.
  [[nodiscard]] std::string folder_of(std::int64_t step, int of_rank) const;
  // Writes into that folder.
  [[nodiscard]] ArtefactOut out_of(std::int64_t step, int of_rank) const {
    return {channel_, progress_, options_.folder, folder_of(step, of_rank)};
  }

 private:
  WorkerOptions options_;
  Case case_;
  Channel& channel_;
  Progress& progress_;
  HeartbeatThread& heartbeat_;
  const Fault* fault_ = nullptr;
  std::vector<std::function<void(const std::string&, std::int64_t)>> listeners_;
};

// Writes every collective before it is enqueued, and its completion.
class CollectiveRecorder : public nsa::CollectiveObserver {
 public:
  CollectiveRecorder(Channel& channel, Progress& progress)
      : channel_(channel), progress_(progress) {}
  void enqueued(const nsa::CollectiveInfo& info) override;
  void completed(std::int64_t sequence, const std::string& group) override;

 private:
  Channel& channel_;
  Progress& progress_;
};

}  // namespace harness
