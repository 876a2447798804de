// How did the processes end? A signal that the controller did not send, an exception of a rank's own, memory. An error that
// only says that a peer is gone is told as a consequence, and what the controller ended itself as teardown.
#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>
#include <tuple>

#include "harness/checks/list.h"
#include "harness/checks/result.h"

namespace harness::checks {
namespace {

struct End {  // what is told together
  std::string code;
  Role role = Role::unknown;
  std::string what;
  std::string phase;
  std::int64_t step = 0;
  std::string seam;  // that it left, where that is known
  int layer = -1;
  int signal = 0;
  auto operator<=>(const End&) const = default;
};

bool mentions(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.find(word) != std::string::npos;
  });
}

std::string code_of(const WorkerError& error) {
  const std::string text = error.type + ": " + error.what;
  const bool memory =
      error.out_of_memory ||
      mentions(text, {"std::bad_alloc", "can't allocate memory", "out of memory", "OutOfMemory"});
  if (memory) {
    return mentions(text, {"CUDA", "cuda", "HIP"}) ? "OOM.DEVICE" : "OOM.HOST";
  }
  if (mentions(text,
               {"CUDA error",
                "cudaError",
                "AcceleratorError",
                "illegal memory access",
                "device-side assert"})) {
    return "CRASH.DEVICE";
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
  if (error != nullptr) return !error->communication;
  if (evidence.finished(rank)) return true;
  return end != nullptr && !end->by_controller;
}

class Ends {
 public:
  explicit Ends(const Evidence& evidence) : evidence_(evidence) {}

  CheckResult judge() {
    for (const int rank : all_ranks(evidence_)) judge_rank(rank);
    judge_twin();
    for (const auto& [end, ranks] : ends_) result_.found(finding(end, to_ints(ranks)));
    return result_.finish(ranks_text(all_ranks(evidence_)) +
                          " did all that was asked and exited with 0");
  }

 private:
  void judge_rank(int rank) {
    const Exited* end = evidence_.exit_of(rank);
    const WorkerError* error = evidence_.error_of(rank);
    if (refused(rank)) {
      result_.missing("how " + process_name(rank) +
                      " would have ended: it was asked for what it refuses (see ran_route)");
    } else if (error != nullptr) {
      by_error(rank, *error);
    } else if (end == nullptr) {
      result_.missing("how " + process_name(rank) + " ended");
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
    end.code = code_of(error);
    end.what = error.type + ": " + first_line(error.what);
    end.phase = error.phase;
    end.step = error.step;
    if (error.communication && peer_gone(rank)) end.role = Role::cascade;
    set_seam(rank, end);
    ends_[end].insert(rank);
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

  [[nodiscard]] bool peer_gone(int rank) const {
    const std::vector<int> ranks = all_ranks(evidence_);
    return std::any_of(ranks.begin(), ranks.end(), [&](int other) {
      return other != rank && gone_by_itself(evidence_, other);
    });
  }

  void by_controller(int rank, const Exited& end) {
    End teardown;
    teardown.code = "CRASH.SIGNAL";
    teardown.role = Role::teardown;
    teardown.signal = end.signal;
    teardown.what = "was ended by the controller";
    if (end.signal != 0) teardown.what += " with " + signal_name(end.signal);
    ends_[teardown].insert(rank);
    result_.missing("how " + process_name(rank) +
                    " would have ended: the controller ended it (see progress)");
  }

  void by_signal(int rank, const Exited& exited) {
    End end;
    const bool memory = exited.signal == SIGKILL && exited.out_of_memory;
    end.code = memory ? "OOM.HOST" : "CRASH.SIGNAL";
    end.signal = exited.signal;
    end.what = memory ? "was killed for memory by the kernel"
                      : "was ended by " + signal_name(exited.signal);
    if (exited.core_dumped) end.what += " (core dumped)";
    set_place(rank, end);
    ends_[end].insert(rank);
  }

  void by_exit(int rank, const Exited& exited) {
    End end;
    end.code = "CRASH.EXCEPTION";
    if (evidence_.finished(rank)) {
      end.what = "exited with " + std::to_string(exited.exit_code) +
                 " after it had said that all was done";
    } else {
      end.what =
          "exited with " + std::to_string(exited.exit_code) +
          (exited.exit_code == 0 ? ": ended early without saying so" : " without saying why");
    }
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

  [[nodiscard]] static Finding finding(const End& end, const std::vector<int>& ranks) {
    Finding finding;
    finding.code = end.code;
    finding.role = end.role;
    finding.site.ranks = ranks;
    finding.site.phase = end.phase;
    if (end.step > 0) finding.site.step = end.step;
    if (!end.seam.empty()) {
      finding.site.op = end.seam;
      finding.site.layers = {end.layer};
    }
    if (end.signal != 0) finding.site.detail["signal"] = signal_name(end.signal);
    const bool said = end.what.find(": ") != std::string::npos && end.what.rfind("exited", 0) != 0;
    finding.statement = ranks_text(ranks) + (said ? " raised " : " ") + end.what;
    if (!end.phase.empty()) finding.statement += ", in phase " + end.phase;
    if (!end.seam.empty()) {
      finding.statement += ", in " + end.seam + " of layer " + std::to_string(end.layer);
    }
    explain(end, finding);
    return finding;
  }

  static void explain(const End& end, Finding& finding) {
    if (end.role == Role::teardown) {
      finding.ruled_out = "not a fault of the process: the signal was the controller's own";
      finding.next_action = "see why the controller ended the case";
    } else if (end.role == Role::cascade) {
      finding.ruled_out =
          "not a cause of its own: a peer had ended, and this rank says that it is gone";
      finding.next_action = "see how the peer ended";
    } else if (end.signal != 0) {
      finding.ruled_out = "not the controller: it had sent this process nothing";
      finding.next_action =
          "read the end of the rank's stderr and the kernel log; look for who sends the signal";
    } else if (end.code.rfind("OOM.", 0) == 0) {
      finding.ruled_out = "not a time-out or a peer: the allocation itself failed";
      finding.next_action =
          "compare the peak memory with the case's prediction; reduce batch, length or ranks";
    } else if (end.code == "CRASH.DEVICE") {
      finding.ruled_out = "not a peer's end: this rank's own device reported it";
      finding.next_action =
          end.seam.empty()
              ? "run it again with CUDA_LAUNCH_BLOCKING=1: a kernel's error is told by "
                "whatever is called after it, so the place is not known"
              : "run that operator alone under compute-sanitizer";
    } else {
      finding.ruled_out = "not a peer's end: the rank raised this itself";
      finding.next_action = "read the message and the rank's stderr at this step and phase";
    }
  }

  const Evidence& evidence_;
  std::map<End, std::set<int>> ends_;
  ResultBuilder result_;
};

}  // namespace

Check process_clean() {
  return {"process_clean",
          "every process did what it was asked and ended by itself with 0",
          {"CRASH.EXCEPTION", "CRASH.SIGNAL", "CRASH.DEVICE", "OOM.DEVICE", "OOM.HOST"},
          [](const Evidence& evidence) {
            // A kill that the scenario asked for is no crash: the life that it ended is not judged.
            return evidence.relaunches.empty() ? Ends(evidence).judge()
                                               : Ends(evidence.last_life()).judge();
          }};
}

}  // namespace harness::checks
