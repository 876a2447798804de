// How did the processes end? A signal that the controller did not send, an exception of a rank's own, memory. What an exception
// was is told by its type, its origin and the number of the device's runtime before its words. An error that only says that a peer
// is gone is told as a consequence, and what the controller ended itself as teardown.
#include <algorithm>
#include <array>
#include <csignal>
#include <tuple>

#include "harness/checks/gradients/overwritten.h"
#include "harness/checks/list.h"
#include "harness/checks/process/leavers.h"
#include "harness/checks/result.h"
#include "harness/evidence/hosts.h"
#include "harness/evidence/raised.h"

namespace harness::checks {
namespace {

struct End {  // what is told together
  std::string code;
  std::string variant;
  Role role = Role::unknown;
  std::string message;    // of an exception
  std::string raised_by;  // the function, where it is known
  std::string told_by;    // what tells that it is this code and variant
  std::string words;      // of the message, where only they tell it
  std::int64_t device_code = 0;
  std::string phase;
  std::int64_t step = 0;
  std::string seam;  // that it left, where that is known
  int layer = -1;
  int signal = 0;
  int exit_code = 0;
  bool core_dumped = false;
  bool memory_kill = false;    // of some process, meanwhile
  std::int64_t sequence = -1;  // of the collective that it had entered and not left
  std::vector<int> peers;      // that had ended by themselves
  std::int64_t steps = 0;      // that were asked for, where fewer were done
  auto operator<=>(const End&) const = default;
};

const char* code_of(Failure failure) {
  switch (failure) {
    case Failure::host_memory: return "OOM.HOST";
    case Failure::device_memory: return "OOM.DEVICE";
    case Failure::device: return "CRASH.DEVICE";
    case Failure::own:
    case Failure::communication:
    case Failure::reducer: break;
  }
  return "CRASH.EXCEPTION";
}

std::string first_line(const std::string& text) {
  constexpr std::size_t kLongest =
      400;  // a statement is a sentence; the whole text stays in the evidence
  std::string line = text.substr(0, text.find('\n'));
  return line.size() > kLongest ? line.substr(0, kLongest) + "..." : line;
}

std::string signal_name(int number) {
  using Name = std::pair<int, const char*>;
  constexpr std::array kNames = {Name{SIGKILL, "SIGKILL"},
                                 Name{SIGSEGV, "SIGSEGV"},
                                 Name{SIGABRT, "SIGABRT"},
                                 Name{SIGBUS, "SIGBUS"},
                                 Name{SIGFPE, "SIGFPE"},
                                 Name{SIGILL, "SIGILL"},
                                 Name{SIGTERM, "SIGTERM"},
                                 Name{SIGINT, "SIGINT"}};
  for (const auto& [signal, name] : kNames) {
    if (signal == number) return name;
  }
  return "signal " + std::to_string(number);
}

bool ended_well(const Evidence& evidence, int rank) {
  const Exited* end = evidence.exit_of(rank);
  return evidence.finished(rank) && end != nullptr && end->signal == 0 && end->exit_code == 0;
}

// Gone on its own account: what a peer's communication error can be a consequence of.
bool gone_by_itself(const Evidence& evidence, int rank) {
  const Exited* end = evidence.exit_of(rank);
  const WorkerError* error = evidence.error_of(rank);
  if (error != nullptr) return raised_as(*error).failure != Failure::communication;
  if (evidence.finished(rank)) return true;
  return end != nullptr && !end->by_controller;
}

class Ends {
 public:
  explicit Ends(const Evidence& evidence) : evidence_(evidence) {}

  CheckResult judge() {
    for (const int rank : all_ranks(evidence_)) judge_rank(rank);
    judge_leavers();
    judge_steps();
    judge_twin();
    judge_launcher();
    tell_overwritten();
    judge_left_behind();
    tell(false);
    tell(true);
    return result_.finish(ranks_text(all_ranks(evidence_)) +
                          " did all that was asked and exited with 0" + told_left_behind());
  }

 private:
  void judge_left_behind() {
    for (const auto& row : evidence_.facts) {
      if (row.process != kController || row.row.name != kStayedFact) continue;
      result_.missing("the end of processes that were left behind: SIGKILL did not end " +
                      row.row.value);
    }
  }

  // No failure: who starts a server for all cases does so. But it did not outlive the case.
  [[nodiscard]] std::string told_left_behind() const {
    for (const auto& row : evidence_.facts) {
      if (row.process == kController && row.row.name == kLeftBehindFact) {
        return "; processes that they left behind were ended: " + row.row.value;
      }
    }
    return "";
  }

  void judge_rank(int rank) {
    const Exited* end = evidence_.exit_of(rank);
    const WorkerError* error = evidence_.error_of(rank);
    if (refused(rank)) {
      result_.missing("how " + process_name(rank) +
                          " would have ended: it was asked for what it refuses (see ran_route)",
                      site_of_rank(rank));
    } else if (error != nullptr) {
      by_error(rank, *error);
    } else if (end == nullptr) {
      result_.missing("how " + process_name(rank) + " ended", site_of_rank(rank));
    } else if (end->by_launcher) {
      by_launcher(rank, *end);
    } else if (end->by_controller && !ended_well(evidence_, rank)) {
      by_controller(rank, *end);
    } else if (end->signal != 0) {
      by_signal(rank, *end);
    } else if (!ended_well(evidence_, rank)) {
      by_exit(rank, *end);
    }
  }

  // No crash: it said beforehand what it cannot do, and ended.
  [[nodiscard]] bool refused(int rank) const {
    return std::any_of(evidence_.refusals.begin(), evidence_.refusals.end(), [&](const auto& row) {
      return row.process == rank;
    });
  }

  void by_error(int rank, const WorkerError& error) {
    End end;
    const Raised raised = raised_as(error);
    end.code = code_of(raised.failure);
    end.variant = "raised";
    if (raised.failure != Failure::own) end.told_by = name_of(raised.told_by);
    end.words = raised.words;
    end.raised_by = harness::raised_by(error);
    end.device_code = error.device_code;
    end.message = error.type + ": " + first_line(error.what);
    end.phase = error.phase;
    end.step = error.step;
    if (raised.failure == Failure::reducer) end.variant = "reducer";
    if (raised.failure == Failure::communication) {
      end.variant = "communication";
      end.peers = peers_gone(rank);
      end.sequence = entered(rank);
    }
    set_seam(rank, end);
    ends_[end].insert(rank);
  }

  // What autograd raises where it notices: checkpoint_equal tells it too, and once is enough.
  void tell_overwritten() {
    const auto& checks = evidence_.the_case.scenario.checks;
    if (std::find(checks.begin(), checks.end(), "checkpoint_equal") != checks.end()) return;
    std::set<std::int64_t> steps;
    for (const auto& row : evidence_.errors) {
      if (row.process >= 0 && says_overwritten(row.row)) steps.insert(row.row.step);
    }
    for (const std::int64_t step : steps) {
      if (auto finding = overwritten_in_step(evidence_, step)) result_.found(std::move(*finding));
    }
  }

  void set_seam(int rank, End& end) const {
    for (const auto& row : evidence_.facts) {
      if (row.process != rank || row.row.name != "raised_in") continue;
      const auto place = nlohmann::json::parse(row.row.value, nullptr, false);
      const bool whole = place.is_array() && place.size() == 2 && place[0].is_string() &&
                         place[1].is_number_integer();
      if (!whole) continue;
      end.seam = place[0].get<std::string>();
      end.layer = place[1].get<int>();
    }
  }

  [[nodiscard]] std::vector<int> peers_gone(int rank) const {
    std::vector<int> gone;
    for (const int other : all_ranks(evidence_)) {
      if (other != rank && gone_by_itself(evidence_, other)) gone.push_back(other);
    }
    return gone;
  }

  // The first collective that the rank entered and did not leave; -1 where there is none.
  [[nodiscard]] std::int64_t entered(int rank) const {
    std::set<std::pair<std::string, std::int64_t>> open;
    for (const auto& row : evidence_.collectives) {
      if (row.process == rank) open.insert({row.row.group, row.row.sequence});
    }
    for (const auto& row : evidence_.collectives_done) {
      if (row.process == rank) open.erase({row.row.group, row.row.sequence});
    }
    return open.empty() ? -1 : open.begin()->second;
  }

  // After another rank had failed: no failure of its own.
  void by_launcher(int rank, const Exited& exited) {
    ends_[teardown("launcher", exited)].insert(rank);
  }

  static End teardown(const char* variant, const Exited& exited) {
    End end;
    end.code = "CRASH.SIGNAL";
    end.variant = variant;
    end.role = Role::teardown;
    end.signal = exited.signal;
    return end;
  }

  void by_controller(int rank, const Exited& end) {
    ends_[teardown("teardown", end)].insert(rank);
    result_.missing(
        "how " + process_name(rank) + " would have ended: the controller ended it (see progress)",
        site_of_rank(rank));
  }

  void by_signal(int rank, const Exited& exited) {
    End end;
    const bool memory = exited.signal == SIGKILL && exited.out_of_memory;
    end.code = memory ? "OOM.HOST" : "CRASH.SIGNAL";
    end.variant = memory ? "killed" : "signal";
    end.signal = exited.signal;
    end.core_dumped = exited.core_dumped;
    end.memory_kill = exited.memory_kill_elsewhere;
    if (!memory) end.sequence = entered(rank);
    set_place(rank, end);
    ends_[end].insert(rank);
  }

  void by_exit(int rank, const Exited& exited) {
    End end;
    end.code = "CRASH.EXCEPTION";
    end.variant = evidence_.finished(rank) ? "exit_late"
                  : exited.exit_code == 0  ? "exit_early"
                                           : "exit";
    end.exit_code = exited.exit_code;
    set_place(rank, end);
    ends_[end].insert(rank);
  }

  // Where it was last heard of.
  void set_place(int rank, End& end) const {
    std::int64_t latest = -1;
    for (const auto& row : evidence_.phases) {
      if (row.process != rank || row.t_ms < latest) continue;
      latest = row.t_ms;
      end.phase = row.row.phase;
      end.step = row.row.step;
    }
  }

  // Unless somebody failed by himself.
  void judge_leavers() {
    if (!evidence_.the_case.scenario.is_command()) return;
    std::set<int> alone;
    for (const auto& [end, ranks] : ends_) {
      if (end.role == Role::teardown) continue;
      if (end.variant != "communication") return;
      alone.insert(ranks.begin(), ranks.end());
    }
    for (const int rank : leavers(evidence_, alone)) {
      End end;
      end.code = "CRASH.EXCEPTION";
      end.variant = "left";
      end.peers = to_ints(alone);
      set_place(rank, end);
      ends_[end].insert(rank);
    }
  }

  // Ranks that all say that they are done, and none began the last step. One that leaves its peers alone is told by what they
  // do without it.
  void judge_steps() {
    const Scenario& scenario = evidence_.the_case.scenario;
    if (!scenario.trains() || evidence_.phases.empty()) return;
    std::int64_t latest = 0;
    for (const auto& row : evidence_.phases) {
      if (row.process >= 0) latest = std::max(latest, row.row.step);
    }
    for (const auto& row : evidence_.snapshots) latest = std::max(latest, row.row.step);
    const auto ranks = all_ranks(evidence_);
    const bool all_well = std::all_of(
        ranks.begin(), ranks.end(), [&](int rank) { return ended_well(evidence_, rank); });
    if (!all_well || latest >= scenario.training.steps) return;
    End end;
    end.code = "CRASH.EXCEPTION";
    end.variant = "exit_short";
    end.step = latest;
    end.steps = scenario.training.steps;
    ends_[end].insert(ranks.begin(), ranks.end());
  }

  // Ranks that failed are told themselves.
  void judge_launcher() {
    const Exited* exited = evidence_.exit_of(kLauncher);
    const bool told = std::any_of(ends_.begin(), ends_.end(), [](const auto& entry) {
      return entry.first.role != Role::teardown;
    });
    if (exited == nullptr || exited->by_controller || told || result_.has_missing()) return;
    if (exited->exit_code == 0) return;
    End end;
    end.code = exited->signal != 0 ? "CRASH.SIGNAL" : "CRASH.EXCEPTION";
    end.variant = exited->signal != 0 ? "command_signal" : "command";
    end.signal = exited->signal;
    if (exited->signal == 0) end.exit_code = exited->exit_code;
    ends_[end];
  }

  void judge_twin() {
    const bool started =
        std::any_of(evidence_.started.begin(), evidence_.started.end(), [](const auto& row) {
          return row.row.process_started == kTwin;
        });
    if (!started || ended_well(evidence_, kTwin)) return;
    const WorkerError* error = evidence_.error_of(kTwin);
    result_.missing("a twin that ended well" +
                    (error != nullptr ? " (" + error->type + ": " + first_line(error->what) + ")"
                                      : std::string()));
  }

  // Ranks that the launcher ended are told behind those that it ended them for.
  void tell(bool teardown) {
    for (const auto& [end, ranks] : ends_) {
      if ((end.role == Role::teardown) == teardown) result_.found(finding(end, to_ints(ranks)));
    }
  }

  [[nodiscard]] static Finding finding(const End& end, const std::vector<int>& ranks) {
    Finding finding = make_finding(end.code, end.variant);
    finding.role = end.role;
    finding.site.ranks = ranks;
    finding.site.phase = end.phase;
    if (end.step > 0) finding.site.step = end.step;
    if (end.sequence >= 0) finding.site.sequence = end.sequence;
    if (!end.seam.empty()) {
      finding.site.op = end.seam;
      finding.site.layers = {end.layer};
    }
    if (end.signal != 0) finding.site.detail["signal"] = signal_name(end.signal);
    if (!end.message.empty()) finding.facts["message"] = end.message;
    if (!end.raised_by.empty()) finding.facts["raised_by"] = end.raised_by;
    if (!end.told_by.empty()) finding.facts["told_by"] = end.told_by;
    if (!end.words.empty()) finding.facts["words"] = end.words;
    if (end.device_code != 0) finding.facts["device_code"] = end.device_code;
    if (end.core_dumped && end.variant == "signal") finding.facts["core"] = "wrote a core file";
    if (end.memory_kill) finding.facts["memory"] = "killed a process for memory meanwhile";
    if (!end.peers.empty()) finding.facts["peers"] = ranks_text(end.peers);
    if (end.exit_code != 0) finding.facts["exit_code"] = end.exit_code;
    if (end.steps > 0) finding.facts["steps"] = end.steps;
    return finding;
  }

  const Evidence& evidence_;
  std::map<End, std::set<int>> ends_;
  ResultBuilder result_;
};

}  // namespace

Check process_clean() {
  return {"process_clean",
          "every process did what it was asked and ended by itself with 0",
          {"CRASH.EXCEPTION",
           "CRASH.SIGNAL",
           "CRASH.DEVICE",
           "OOM.DEVICE",
           "OOM.HOST",
           "INPLACE.MODIFIED"},
          [](const Evidence& evidence) {
            // A kill that the scenario asked for is no crash: the life that it ended is not judged.
            return evidence.relaunches.empty() ? Ends(evidence).judge()
                                               : Ends(evidence.last_life()).judge();
          },
          kWatchProcesses};
}

}  // namespace harness::checks
