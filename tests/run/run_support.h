// What the tests of the runner share: a case, and a run of fake ranks in given moods.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/evidence/evidence.h"
#include "harness/run/looks/proc_look.h"
#include "harness/run/runner.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"
#include "tests/scenario/valid_case.h"

namespace harness::test {

inline Case fake_case(int ranks, double budget_seconds = 600.0) {
  Case the_case = valid_case();
  the_case.scenario.parallel.ranks = ranks;
  the_case.scenario.budget_seconds = budget_seconds;
  return the_case;
}

// `moods`: "1" -> mood of rank 1, "TWIN" -> of the twin, "" -> of all other ranks.
inline std::vector<std::string> fake_environment(const std::map<std::string, std::string>& moods) {
  std::vector<std::string> environment = {"ASAN_OPTIONS=detect_leaks=0"};
  for (const auto& [who, mood] : moods) {
    environment.push_back((who.empty() ? "FAKE_MOOD=" : "FAKE_MOOD_" + who + "=") + mood);
  }
  return environment;
}

// Deadlines that no healthy fake misses on a busy machine, and that do not make a test long.
inline RunnerOptions patient_options(const std::string& folder,
                                     const std::map<std::string, std::string>& moods) {
  RunnerOptions options;
  options.worker = fakes::programs() + "/fake_rank";
  options.environment = fake_environment(moods);
  options.folder = folder;
  options.still.floor_ms = 20'000;
  options.look_apart_ms = 200;
  options.peer_grace_ms = 400;
  options.term_grace_ms = 400;
  return options;
}

struct Ran {
  RunResult result;
  std::vector<Event> events;
  Evidence evidence;
};

inline Ran run_fakes(const Case& the_case, const RunnerOptions& options, RunnerHooks hooks = {}) {
  Ran ran;
  ran.evidence.the_case = the_case;
  ran.evidence.folder = options.folder;
  const auto more = hooks.on_event;
  hooks.on_event = [&](const Event& event) {
    ran.events.push_back(event);
    ran.evidence.add(event);
    if (more) more(event);
  };
  ran.result = run_case(the_case, options, hooks);
  return ran;
}

// Runs, sleeps or is stopped; a zombie, which runs nothing, waits for whoever adopted it to take note.
inline bool is_alive(std::int64_t pid) {
  const auto state = read_process_state(static_cast<pid_t>(pid));
  return state && state->state != 'Z' && state->state != 'X';
}

}  // namespace harness::test
