// A command of the user's own: how it ended, and whether it stands still, as far as it says nothing of itself.
#pragma once

#include "harness/evidence/hosts.h"
#include "tests/checks/planted_ends.h"
#include "tests/checks/planted_progress.h"

namespace fixtures {

inline void as_command(Healthy& h) {
  h.evidence.the_case.scenario.kind = harness::kCommandKind;
  h.without_twin();
  for (const int rank : {0, 1}) put(h.evidence.started, kController, harness::Started{rank, 1}, 1);
}

inline void launcher_ends(Healthy& h, int exit_code, int signal) {
  harness::Exited exited;
  exited.process_ended = harness::kLauncher;
  exited.exit_code = exit_code;
  exited.signal = signal;
  put(h.evidence.exited, kController, exited, 50'000);
}

// Ranks that record nothing stand still; the main thread of `far` ones waits with a limit of half an hour.
inline void still_command(Healthy& h, const std::vector<int>& far) {
  stopped(h, "still", "");
  as_command(h);
  h.evidence.hellos.clear();
  h.evidence.phases.clear();
  h.evidence.heartbeats.clear();
  h.evidence.collectives.clear();
  h.evidence.collectives_done.clear();
  for (int rank = 0; rank < 2; ++rank) look_at(h, rank, kInLock, kInLock);
  for (auto& row : h.evidence.observations) {
    const bool waits = std::find(far.begin(), far.end(), row.row.process_observed) != far.end();
    if (!waits) continue;
    row.row.threads.front().timed = true;
    row.row.threads.front().left_ms = 1'790'000;
  }
}

inline void add_command(std::vector<Planted>& list) {
  const std::string ends = "process_clean";
  list.push_back({ends,
                  "a rank that its launcher ended",
                  Verdict::fail,
                  "CRASH.SIGNAL",
                  R"({"ranks":[1],"detail":{"signal":"SIGKILL"}})",
                  [](Healthy& h) {
                    as_command(h);
                    h.ends(1, 0, SIGKILL, false, 900);
                    h.ends(0, 0, SIGTERM, false, 1'000);
                    h.evidence.exited.back().row.by_launcher = true;
                    launcher_ends(h, 1, 0);
                  }});
  list.push_back({ends,
                  "a command that fails after its ranks",
                  Verdict::fail,
                  "CRASH.EXCEPTION",
                  R"({"ranks":[]})",
                  [](Healthy& h) {
                    as_command(h);
                    launcher_ends(h, 3, 0);
                  }});
  list.push_back({ends,
                  "a command that is killed after its ranks",
                  Verdict::fail,
                  "CRASH.SIGNAL",
                  R"({"ranks":[],"detail":{"signal":"SIGKILL"}})",
                  [](Healthy& h) {
                    as_command(h);
                    launcher_ends(h, -1, SIGKILL);
                  }});
  list.push_back({ends,
                  "a rank that ends after its peer's connection failed",
                  Verdict::fail,
                  "CRASH.EXCEPTION",
                  R"({"ranks":[0]})",
                  [](Healthy& h) {
                    as_command(h);
                    raises(0,
                           error_of("RuntimeError",
                                    "[gloo/transport/tcp/pair.cc:5] Connection closed by peer"))(h);
                    for (auto& row : h.evidence.exited)
                      row.t_ms = row.row.process_ended == 0 ? 950 : 990;
                    launcher_ends(h, 1, 0);
                  }});
  list.push_back(
      {ends,
       "a rank that left its peer with zero",  // which of the two is the cause is seen later
       Verdict::fail,
       "CRASH.EXCEPTION",
       R"({"ranks":[0]})",
       [](Healthy& h) {
         as_command(h);
         raises(0, error_of("RuntimeError", "Connection closed by peer"))(h);
         h.ends(0, 1, 0, false, 950);
         h.ends(1, 0, 0, false, 900);
       }});
  list.push_back(
      {ends, "a command that left processes behind", Verdict::pass, "", "{}", [](Healthy& h) {
         put(h.evidence.facts, kController, harness::Fact{harness::kLeftBehindFact, "sleep"});
       }});
  list.push_back({ends,
                  "a command that left processes behind which do not end",
                  Verdict::inconclusive,
                  "",
                  "{}",
                  [](Healthy& h) {
                    put(h.evidence.facts, kController, harness::Fact{harness::kStayedFact, "tar"});
                  }});
  const std::string moves = "progress";
  list.push_back({moves,
                  "a command whose ranks all wait for a peer",
                  Verdict::fail,
                  "HANG.COLLECTIVE",
                  R"({"ranks":[0,1]})",
                  [](Healthy& h) {
                    still_command(h, {0, 1});
                  }});
  list.push_back({moves,
                  "a command of which one rank waits for no peer",
                  Verdict::fail,
                  "HANG.HOST",
                  R"({"ranks":[1]})",
                  [](Healthy& h) { still_command(h, {0}); }});
  list.push_back(
      {moves, "a command that waits between two steps", Verdict::pass, "", "{}", [](Healthy& h) {
         as_command(h);
         wait_for_data(h, 1, 5'000, 40);
       }});
  list.push_back(
      {moves, "a command that slept and went on", Verdict::pass, "", "{}", [](Healthy& h) {
         as_command(h);
         moved_again(h);
         look_at(h, 1, kAsleep, kAsleep);
       }});
}

}  // namespace fixtures
