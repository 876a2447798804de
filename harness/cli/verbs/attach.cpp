// What hangs at this moment: two looks at processes that nsa-harness did not start, and what they show. Nothing is stored, and no
// process is stopped or signalled.
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>

#include "harness/checks/list.h"
#include "harness/cli/running/python_frames.h"
#include "harness/cli/verbs.h"
#include "harness/evidence/standstill.h"
#include "harness/judge/judge.h"
#include "harness/run/processes/command_tree.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

struct AttachArguments {
  std::vector<int> pids;
  double seconds = 6.0;
};

using Ranks = std::map<int, pid_t>;

// Those that say so below the given processes; one that has none is taken for a rank itself.
Ranks ranks_of(const std::vector<int>& pids) {
  Ranks ranks;
  for (const int pid : pids) {
    if (!read_process_state(pid)) {
      throw nsa::Error("attach: found no process " + std::to_string(pid));
    }
    CommandTree tree(pid);
    tree.scan(0);
    std::vector<FoundRank> found = tree.ranks();
    if (found.empty()) found.push_back({static_cast<int>(ranks.size()), 0, pid});
    for (const FoundRank& one : found) ranks[one.rank] = one.pid;
  }
  return ranks;
}

class Attached {
 public:
  explicit Attached(Ranks ranks) : ranks_(std::move(ranks)) {
    evidence_.the_case.scenario.kind = kCommandKind;
    evidence_.the_case.scenario.checks = {"progress"};
    for (const auto& [rank, pid] : ranks_) add(0, Started{rank, pid});
  }

  // The numbers of looks say what they are for: 0 and 1 have stacks, 2 and 3 are where wake-ups are counted.
  void look(int number, std::int64_t t_ms) {
    const Processes all = all_processes();
    for (const auto& [rank, pid] : ranks_) {
      Observation seen = look_at(rank, number, pid, all);
      add(t_ms, seen);
      seen.look = number + 2;
      add(t_ms, seen);
    }
  }

  // After both looks: what py-spy needs a process for must not count as its waking up.
  void put_frames() {
    for (auto& row : evidence_.observations) {
      if (row.row.threads.empty() || row.row.look > 1) continue;
      std::vector<std::string>& frames = frames_[row.row.process_observed];
      if (frames.empty()) frames = python_frames(ranks_.at(row.row.process_observed));
      row.row.threads.front().frames = frames;
    }
  }

  int tell(std::int64_t wall_ms) {
    std::vector<Looked> looked;
    for (const auto& [rank, pid] : ranks_) looked.push_back(looked_at(rank, wall_ms));
    std::size_t next = 0;
    for (const auto& [rank, pid] : ranks_) tell_rank(rank, pid, looked[next++]);
    if (!stands_still(looked)) {
      std::cout << "no standstill: at least one of them computes, sleeps or uses a disk\n";
      return kExitPass;
    }
    add(wall_ms, Suspect{wall_ms, wall_ms, 0});
    add(wall_ms, Stopped{"still", "", wall_ms});
    for (auto& suspect : evidence_.suspects) suspect.t_ms = 0;  // the looks came after it
    const Judgement judged = judge(evidence_, all_checks());
    std::cout << name_of(judged.outcome) << "  " << judged.reason << "\n";
    return judged.outcome == Outcome::hang ? kExitFailed : kExitInconclusive;
  }

 private:
  template <typename Row>
  void add(std::int64_t t_ms, const Row& row) {
    evidence_.add(Event::of(kController, t_ms, row));
  }

  [[nodiscard]] const Observation* seen(int rank, int look) const {
    for (const auto& row : evidence_.observations) {
      if (row.row.process_observed == rank && row.row.look == look) return &row.row;
    }
    return nullptr;
  }

  [[nodiscard]] Looked looked_at(int rank, std::int64_t wall_ms) const {
    Looked looked;
    looked.before = seen(rank, 0);
    looked.after = seen(rank, 1);
    looked.wall_ms = wall_ms;
    looked.wake_ups = wake_ups_between(*looked.before, *looked.after);
    return looked;
  }

  void tell_rank(int rank, pid_t pid, const Looked& looked) const {
    std::cout << process_name(rank) << ", pid " << pid << ": " << told(looked) << "\n";
    for (const std::string& frame : main_frames(*looked.after))
      std::cout << "    " << frame << "\n";
  }

  Ranks ranks_;
  std::map<int, std::vector<std::string>> frames_;
  Evidence evidence_;
};

int attach(const AttachArguments& arguments) {
  Attached attached(ranks_of(arguments.pids));
  const auto wall_ms = static_cast<std::int64_t>(arguments.seconds * 1000.0);
  attached.look(0, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(wall_ms));
  attached.look(1, 1 + wall_ms);
  attached.put_frames();
  return attached.tell(wall_ms);
}

}  // namespace

Action add_attach(CLI::App& command) {
  const auto arguments = std::make_shared<AttachArguments>();
  command.add_option("pids", arguments->pids, "Ranks, or the launcher that started them")
      ->required()
      ->type_name("PID");
  command.add_option("--seconds", arguments->seconds, "Seconds between the two looks")
      ->check(CLI::Range(1.0, 60.0));
  return [arguments] { return attach(*arguments); };
}

}  // namespace harness::cli
