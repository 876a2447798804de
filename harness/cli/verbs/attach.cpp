// What hangs at this moment: two looks at processes that nsa-harness did not start, judged as those of a command that was ended for
// standing still. Nothing is stored, and no process is stopped.
#include <chrono>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include <CLI/CLI.hpp>

#include "harness/checks/list.h"
#include "harness/checks/process/rank_state.h"
#include "harness/cli/output.h"
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
  bool json = false;
};

struct SeenRanks {
  std::map<int, pid_t> ranks;
  bool numbered = true;  // they say their numbers themselves
  int world = 0;         // how many ranks there are to be; 0: it is not said
};

// Those that say so below the given processes; one that has none is taken for a rank itself.
SeenRanks ranks_of(const std::vector<int>& pids) {
  SeenRanks seen;
  for (const int pid : pids) {
    if (!read_process_state(pid)) {
      throw nsa::Error("attach: found no process " + std::to_string(pid));
    }
    CommandTree tree(pid);
    tree.scan(0);
    std::vector<FoundRank> found = tree.ranks();
    if (found.empty()) {
      seen.numbered = false;
      found.push_back({static_cast<int>(seen.ranks.size()), 0, tree.worker(pid)});
    }
    for (const FoundRank& one : found) {
      seen.ranks[one.rank] = one.pid;
      seen.world = std::max(seen.world, one.world);
    }
  }
  return seen;
}

struct Answer {
  std::string verdict;  // "HANG", "MOVES", "UNDECIDED"
  std::string statement;
  std::string next;
  int exit_code = kExitPass;
};

class Attached {
 public:
  explicit Attached(SeenRanks seen) : seen_(std::move(seen)) {
    evidence_.the_case.scenario.kind = kCommandKind;
    evidence_.the_case.scenario.checks = {"progress"};
    for (const auto& [rank, pid] : seen_.ranks) add(0, Started{rank, pid});
    if (seen_.world > 0) add(0, Fact{kWorldSizeFact, std::to_string(seen_.world)});
  }

  // The numbers of looks say what they are for: 0 and 1 have stacks, 2 and 3 are where wake-ups are counted.
  void look(int number, std::int64_t t_ms) {
    const Processes all = all_processes();
    for (const auto& [rank, pid] : seen_.ranks) {
      Observation seen = look_at(rank, number, pid, all);
      add(t_ms, seen);
      seen.look = number + 2;
      add(t_ms, seen);
    }
  }

  // After both looks: what is needed of a process for its stack must not count as its waking up.
  void put_frames() {
    std::vector<std::future<void>> asked;
    for (auto& row : evidence_.observations) {
      if (row.row.look != 1) continue;
      const pid_t pid = seen_.ranks.at(row.row.process_observed);
      asked.push_back(
          std::async([pid, &seen = row.row] { put_python_frames(pid, &python_frames, seen); }));
    }
    for (std::future<void>& one : asked) one.get();
    std::map<int, std::vector<std::string>> frames;
    for (const auto& row : evidence_.observations) {
      if (row.row.look == 1 && !row.row.threads.empty())
        frames[row.row.process_observed] = row.row.threads.front().frames;
    }
    for (auto& row : evidence_.observations) {
      if (row.row.look == 0 && !row.row.threads.empty())
        row.row.threads.front().frames = frames[row.row.process_observed];
    }
  }

  [[nodiscard]] Answer told(std::int64_t wall_ms) {
    constexpr std::int64_t kPollsMs =
        80'000;  // as of a command that is run: a few seconds tell nothing of a loop that polls
    add(wall_ms, Suspect{wall_ms, wall_ms, 0, kPollsMs});
    add(wall_ms, Stopped{"still", "", wall_ms});
    for (auto& suspect : evidence_.suspects) suspect.t_ms = 0;  // the looks came after it
    std::vector<checks::RankState> states;
    for (const auto& [rank, pid] : seen_.ranks) {
      states.push_back(checks::state_of_rank(evidence_, rank, {}));
    }
    const std::string where = checks::standing(of_last_look());
    if (!stands_still(checks::looked_at(states))) {
      return {"MOVES",
              "no standstill: at least one of them computes, sleeps or uses a disk. " + where,
              "",
              kExitPass};
    }
    const std::string unread = checks::unread_waits(states);
    if (!unread.empty()) {
      return {
          "UNDECIDED",
          "what " + unread + " " + (states.size() == 1 ? "waits" : "wait") +
              " in could not be read, so a standstill cannot be told from a sleep. " + where,
          "Only root, or a process that started them, may look into them: `sudo nsa-harness attach "
          "PID`. Runs that `nsa-harness run -- COMMAND` starts need no root.",
          kExitInconclusive};
    }
    const Judgement judged = judge(evidence_, all_checks());
    const std::string next = judged.findings.empty() ? "" : judged.findings.front().next_action;
    if (judged.outcome != Outcome::hang) {
      return {"UNDECIDED", judged.reason + " " + where, next, kExitInconclusive};
    }
    const auto ranks = static_cast<int>(seen_.ranks.size());
    if (ranks < seen_.world) {
      return {"UNDECIDED",
              std::to_string(ranks) + " of " + std::to_string(seen_.world) +
                  " ranks were seen, and whether the others move is not known. Of those that were "
                  "seen: " +
                  judged.reason,
              "Attach to the ranks of the other hosts too, or give the PIDs of all of them.",
              kExitInconclusive};
    }
    return {"HANG", judged.reason, next, kExitFailed};
  }

  [[nodiscard]] nlohmann::json as_json(const Answer& told) const {
    nlohmann::json ranks = nlohmann::json::array();
    for (const auto& [rank, pid] : seen_.ranks) {
      const checks::RankState state = checks::state_of_rank(evidence_, rank, {});
      ranks.push_back({{"rank", seen_.numbered ? nlohmann::json(rank) : nlohmann::json()},
                       {"pid", pid},
                       {"waits", harness::told(state.looked())},
                       {"frames", main_frames(state.looks[1]->row)},
                       {"children", state.looks[1]->row.children}});
    }
    return {{"verdict", told.verdict},
            {"statement", told.statement},
            {"next_action", told.next},
            {"ranks_seen", seen_.ranks.size()},
            {"world_size", seen_.world > 0 ? nlohmann::json(seen_.world) : nlohmann::json()},
            {"ranks", ranks},
            {"exit_code", told.exit_code}};
  }

  void print(const Answer& told) const {
    std::cout << told.verdict << "  " << told.statement << "\n";
    if (!told.next.empty()) std::cout << "\nNext: " << told.next << "\n";
    if (seen_.world > 0)
      std::cout << "\n" << seen_.ranks.size() << " of " << seen_.world << " ranks seen\n";
    for (const auto& [rank, pid] : seen_.ranks) {
      const checks::RankState state = checks::state_of_rank(evidence_, rank, {});
      std::cout << "\n"
                << process_name(rank) << ", pid " << pid
                << (seen_.numbered ? "" : " (without a number of its own)") << ": "
                << harness::told(state.looked()) << "\n";
      for (const std::string& frame : main_frames(state.looks[1]->row))
        std::cout << "    " << frame << "\n";
    }
  }

 private:
  template <typename Row>
  void add(std::int64_t t_ms, const Row& row) {
    evidence_.add(Event::of(kController, t_ms, row));
  }

  [[nodiscard]] Evidence of_last_look() const {
    Evidence looked;
    for (const auto& row : evidence_.observations) {
      if (row.row.look == 1) looked.observations.push_back(row);
    }
    return looked;
  }

  SeenRanks seen_;
  Evidence evidence_;
};

int attach(const AttachArguments& arguments) {
  Attached attached(ranks_of(arguments.pids));
  const auto wall_ms = static_cast<std::int64_t>(arguments.seconds * 1000.0);
  attached.look(0, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(wall_ms));
  attached.look(1, 1 + wall_ms);
  attached.put_frames();
  const Answer told = attached.told(wall_ms);
  if (arguments.json) {
    std::cout << attached.as_json(told).dump(
                     2, ' ', false, nlohmann::json::error_handler_t::replace)
              << "\n";
  } else {
    attached.print(told);
  }
  return told.exit_code;
}

}  // namespace

Action add_attach(CLI::App& command) {
  const auto arguments = std::make_shared<AttachArguments>();
  command.add_option("pids", arguments->pids, "Ranks, or the launcher that started them")
      ->required()
      ->type_name("PID");
  command.add_option("--seconds", arguments->seconds, "Seconds between the two looks")
      ->check(CLI::Range(1.0, 60.0));
  command.add_flag("--json", arguments->json, "Print one JSON object");
  return [arguments] { return attach(*arguments); };
}

}  // namespace harness::cli
