// How did the processes end? A signal that the controller did not send, an exception of a rank's own, memory. What an exception
// was is told by its type, its origin and the number of the device's runtime before its words. An error that only says that a peer
// is gone is told as a consequence, and what the controller ended itself as teardown.
#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <set>

#include "harness/checks/departures.h"
#include "harness/checks/gradients/overwritten.h"
#include "harness/checks/list.h"
#include "harness/checks/process/leavers.h"
#include "harness/evidence/hosts.h"
#include "harness/evidence/python_frame.h"
#include "harness/evidence/raised.h"
#include "harness/judge/wording/find_wording.h"

namespace harness::checks {
namespace {

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
  return end != nullptr && !end->by_controller && !end->by_launcher;
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
    put_cards();
    tell(false);
    tell(true);
    return result_.finish(ranks_text(all_ranks(evidence_)) +
                          " did all that was asked and exited with 0" + told_left_behind() +
                          told_errors());
  }

 private:
  void judge_left_behind() {
    for (const auto& row : evidence_.facts) {
      if (row.process != kController) continue;
      if (row.row.name == kStayedFact)
        result_.missing("the end of processes that were left behind: SIGKILL did not end " +
                        row.row.value);
      if (row.row.name == kWentOnFact)
        result_.missing(
            "what the command left behind when it had ended: it was ended, and what it would have "
            "done is not known. Start it in the foreground, without nohup and &: " +
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

  // "KeyError: 3", "KeyError: 4", each once.
  [[nodiscard]] std::string somebodys_errors() const {
    std::set<std::string> errors;
    for (const auto& row : evidence_.facts) {
      if (row.process == kController && row.row.name == kSomebodysErrorFact)
        errors.insert("\"" + first_line(row.row.value) + "\"");
    }
    return nsa::join(std::vector<std::string>(errors.begin(), errors.end()));
  }

  // What was caught, or was of a process that nobody waited for, and is no failure of the command.
  [[nodiscard]] std::string told_errors() const {
    const std::string errors = somebodys_errors();
    return errors.empty() ? "" : "; exceptions were printed all the same: " + errors;
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
    Departure end = departure_of(rank);
    Raised raised = raised_as(error);
    end.code = code_of(raised.failure);
    end.variant = "raised";
    if (const std::string common = common_end(error);
        end.code == "CRASH.EXCEPTION" && !common.empty()) {
      end.variant = common;
      raised = {};  // the end explains itself: no peer is named as its reason
    }
    end.facts["message"] = error.type + ": " + first_line(error.what);
    if (raised.failure != Failure::own) end.facts["told_by"] = name_of(raised.told_by);
    if (!raised.words.empty()) end.facts["words"] = raised.words;
    if (const std::string line = users_line(error.frames); !line.empty()) end.facts["line"] = line;
    if (!error.raised_from.empty()) end.facts["raised_from"] = first_line(error.raised_from);
    const std::string function = harness::raised_by(error);
    if (!function.empty()) end.facts["raised_by"] = function;
    if (error.device_code != 0) end.facts["device_code"] = error.device_code;
    put_place(error.phase, error.step, end);
    if (raised.failure == Failure::reducer) end.variant = "reducer";
    if (raised.failure == Failure::communication) {
      end.variant = "communication";
      put_peers(peers_gone(rank), end);
      end.site.sequence = entered(rank);
    }
    set_seam(rank, end);
    ends_.push_back(std::move(end));
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

  void set_seam(int rank, Departure& end) const {
    for (const auto& row : evidence_.facts) {
      if (row.process != rank || row.row.name != "raised_in") continue;
      const auto place = nlohmann::json::parse(row.row.value, nullptr, false);
      const bool whole = place.is_array() && place.size() == 2 && place[0].is_string() &&
                         place[1].is_number_integer();
      if (!whole) continue;
      end.site.op = place[0].get<std::string>();
      end.site.layers = {place[1].get<int>()};
    }
  }

  [[nodiscard]] std::vector<int> peers_gone(int rank) const {
    std::vector<int> gone;
    for (const int other : all_ranks(evidence_)) {
      if (other != rank && gone_by_itself(evidence_, other)) gone.push_back(other);
    }
    return gone;
  }

  // The first collective that the rank entered and did not leave.
  [[nodiscard]] std::optional<std::int64_t> entered(int rank) const {
    std::set<std::pair<std::string, std::int64_t>> open;
    for (const auto& row : evidence_.collectives) {
      if (row.process == rank) open.insert({row.row.group, row.row.sequence});
    }
    for (const auto& row : evidence_.collectives_done) {
      if (row.process == rank) open.erase({row.row.group, row.row.sequence});
    }
    if (open.empty()) return std::nullopt;
    return open.begin()->second;
  }

  // After another rank had failed: no failure of its own.
  void by_launcher(int rank, const Exited& exited) {
    ends_.push_back(teardown(rank, "launcher", exited));
  }

  static Departure departure_of(int rank) {
    Departure end;
    end.site = site_of_rank(rank);
    return end;
  }

  static void put_place(const std::string& phase, std::int64_t step, Departure& end) {
    end.site.phase = phase;
    if (step > 0) end.site.step = step;
  }

  static void put_peers(const std::vector<int>& peers, Departure& end) {
    if (!peers.empty()) end.facts["peers"] = ranks_text(peers);
  }

  static void put_signal(int signal, Departure& end) {
    if (signal != 0) end.site.detail["signal"] = signal_name(signal);
  }

  static Departure teardown(int rank, const char* variant, const Exited& exited) {
    Departure end = departure_of(rank);
    end.code = "CRASH.SIGNAL";
    end.variant = variant;
    end.role = Role::teardown;
    put_signal(exited.signal, end);
    return end;
  }

  void by_controller(int rank, const Exited& end) {
    ends_.push_back(teardown(rank, "teardown", end));
    result_.missing(
        "how " + process_name(rank) + " would have ended: the controller ended it (see progress)",
        site_of_rank(rank));
  }

  void by_signal(int rank, const Exited& exited) {
    Departure end = departure_of(rank);
    const bool memory = exited.signal == SIGKILL && exited.out_of_memory;
    end.code = memory ? "OOM.HOST" : "CRASH.SIGNAL";
    end.variant = memory ? "killed" : "signal";
    put_signal(exited.signal, end);
    if (exited.core_dumped && !memory) end.facts["core"] = "wrote a core file";
    if (exited.memory_kill_elsewhere) {
      end.facts["memory"] = "killed a process for memory meanwhile";
    }
    if (!memory) end.site.sequence = entered(rank);
    for (const auto& row : evidence_.facts) {
      if (row.process != rank) continue;
      if (row.row.name == kAbortedFact) end.facts["message"] = first_line(row.row.value);
      if (row.row.name == kFatalLineFact) end.facts["line"] = row.row.value;
    }
    set_place(rank, end);
    ends_.push_back(std::move(end));
  }

  void by_exit(int rank, const Exited& exited) {
    Departure end = departure_of(rank);
    end.code = "CRASH.EXCEPTION";
    end.variant = evidence_.finished(rank) ? "exit_late"
                  : exited.exit_code == 0  ? "exit_early"
                                           : "exit";
    if (exited.exit_code != 0) end.facts["exit_code"] = exited.exit_code;
    const std::string others = somebodys_errors();
    for (const auto& row : evidence_.facts) {
      const bool told = row.process == rank && row.row.name == kLastLineFact;
      if (told && end.variant == "exit") end.facts["last_line"] = first_line(row.row.value);
    }
    if (!others.empty() && end.variant == "exit") {
      end.variant = "exit_somebody";
      end.facts["errors"] = others;
      end.facts.erase("last_line");
    }
    set_place(rank, end);
    ends_.push_back(std::move(end));
  }

  // The phase and the step in which it was last heard of; nothing where it told none.
  [[nodiscard]] const Phase* last_phase(int rank) const {
    const From<Phase>* latest = nullptr;
    for (const auto& row : evidence_.phases) {
      if (row.process == rank && (latest == nullptr || row.t_ms >= latest->t_ms)) latest = &row;
    }
    return latest == nullptr ? nullptr : &latest->row;
  }

  void set_place(int rank, Departure& end) const {
    if (const Phase* last = last_phase(rank)) put_place(last->phase, last->step, end);
  }

  // Both had ended the same step, and begun no other.
  [[nodiscard]] bool did_as_many_steps(int one, int other) const {
    const Phase* a = last_phase(one);
    const Phase* b = last_phase(other);
    return a != nullptr && b != nullptr && a->phase == "data" && b->phase == "data" &&
           a->step == b->step;
  }

  // A leaver, and the peers that it left alone: their line, and whether they had come further.
  void put_alone(int rank, const std::set<int>& alone, Departure& end) const {
    put_peers(to_ints(alone), end);
    for (const int peer : alone) {
      const WorkerError* error = evidence_.error_of(peer);
      const std::string line = error == nullptr ? "" : users_line(error->frames);
      if (!line.empty() && !end.facts.contains("line")) end.facts["line"] = line;
    }
    const bool all_did = std::all_of(
        alone.begin(), alone.end(), [&](int peer) { return did_as_many_steps(rank, peer); });
    if (all_did) end.facts["as_many"] = ranks_text(to_ints(alone));
  }

  // Unless somebody failed by himself.
  void judge_leavers() {
    if (!evidence_.the_case.scenario.is_command()) return;
    std::set<int> alone;
    for (const Departure& end : ends_) {
      if (end.role == Role::teardown) continue;
      if (end.variant != "communication") return;
      alone.insert(end.site.ranks.begin(), end.site.ranks.end());
    }
    for (const int rank : leavers(evidence_, alone)) {
      Departure end = departure_of(rank);
      end.code = "CRASH.EXCEPTION";
      end.variant = "left";
      put_alone(rank, alone, end);
      set_place(rank, end);
      ends_.push_back(std::move(end));
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
    Departure end("CRASH.EXCEPTION", "exit_short");
    end.site.ranks = ranks;
    put_place("", latest, end);
    end.facts["steps"] = scenario.training.steps;
    ends_.push_back(std::move(end));
  }

  // Ranks that failed are told themselves.
  void judge_launcher() {
    const Exited* exited = evidence_.exit_of(kLauncher);
    const bool told = std::any_of(ends_.begin(), ends_.end(), [](const Departure& end) {
      return end.role != Role::teardown;
    });
    if (exited == nullptr || exited->by_controller || told || result_.has_missing()) return;
    if (exited->exit_code == 0) return;
    Departure end;
    end.code = exited->signal != 0 ? "CRASH.SIGNAL" : "CRASH.EXCEPTION";
    end.variant = exited->signal != 0 ? "command_signal" : "command";
    put_signal(exited->signal, end);
    if (exited->signal == 0) end.facts["exit_code"] = exited->exit_code;
    for (const auto& row : evidence_.facts) {
      if (exited->signal == 0 && row.process == kLauncher && row.row.name == kLastLineFact)
        end.facts["last_line"] = first_line(row.row.value);
    }
    ends_.push_back(std::move(end));
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

  // The state of the machine's cards, beside each end that a card may be the reason of.
  void put_cards() {
    nlohmann::json cards = nlohmann::json::object();
    for (const auto& row : evidence_.facts) {
      if (row.process != kController || row.row.name != kCardFact) continue;
      const std::size_t colon = row.row.value.find(": ");
      if (colon != std::string::npos)
        cards[row.row.value.substr(0, colon)] = row.row.value.substr(colon + 2);
    }
    if (cards.empty()) return;
    for (Departure& end : ends_) {
      const Wording* words = find_wording(end.code, end.variant);
      if (words != nullptr && uses_fact(*words, "cards")) end.facts["cards"] = cards;
    }
  }

  // Ranks that the launcher ended are told behind those that it ended them for.
  void tell(bool teardown) {
    Departures alike;
    for (Departure end : ends_) {
      if ((end.role == Role::teardown) != teardown) continue;
      const nlohmann::json seen = {end.facts, end.site.detail};
      end.apart_by = seen.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      alike.add(std::move(end));
    }
    alike.tell(result_);
  }

  const Evidence& evidence_;
  std::vector<Departure> ends_;
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
