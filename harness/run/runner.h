// Runs one case: starts its ranks, then its twin, takes in what they record, watches that they move, ends what must be
// ended, and leaves no process behind. It judges nothing and reads no fault name: what it saw becomes events.
//
// Where the scenario asks for a kill, the ranks are killed in the midst of it and started again with `--life 1`; what the second
// life records comes after the event Relaunched. Where the ranks end before the kill's point came, there is no such event.
//
// Where a launcher starts the ranks, they are reached through agents (join/); the twin runs here all the same.
//
// A case of kind `command` has one process of its own, the command's keeper; the ranks are found among what it starts.
//
// In the case's folder: case.json, the events with their hash (run_folder.h), rank_N.out and rank_N.err, twin.out, twin.err; of a
// command command.out and command.err.
// The twin runs when every rank ended well (Done, exit 0) and nothing was stopped. That of a foreign kernel is its process once
// more, which calls one trial alone.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "harness/evidence/event.h"
#include "harness/evidence/standstill.h"
#include "harness/run/looks/machine_state.h"
#include "harness/run/looks/proc_look.h"
#include "harness/scenario/case.h"

namespace harness {

// A launcher of the user's that starts the ranks of every case (join/launched_ranks.h).
struct Launch {
  std::vector<std::string> words;  // empty: ranks are started here; {ranks} in them is their number
  std::string program;             // of this program: what the launcher is to start
  std::vector<std::string> environment;  // NAME=value, of the launcher
  std::string address = "127.0.0.1";     // where agents find the controller
  int port = 0;                          // 0: one of the kernel's choice
  std::int64_t join_deadline_ms =
      60'000;  // since the launcher's start, until all ranks have joined
};

struct RunnerOptions {
  // Path of the worker executable; of kind kernel that of the user's Python; of kind command that of this program, which keeps it
  std::string worker;
  std::vector<std::string>
      environment;     // NAME=value, all that a worker gets (rank and world come as arguments)
  std::string folder;  // of the case; exists
  std::string
      built_from;  // hash of this program's sources, recorded with the case; "": not recorded
  std::vector<OtherLevel> other_levels;  // recorded with the case: what it is compared with
  std::string
      texts;  // folder for the texts of training, one file a content for all cases of a run; "": `folder`
  const std::atomic<int>* interrupted = nullptr;  // a signal number once the user wants to stop
  const std::atomic<int>* asked = nullptr;        // grows whenever the user asks who stands where
  // Signals that the user sends to this program and means for a command, as bits 1 << number: they are passed on and taken out.
  std::atomic<std::uint64_t>* pass_on = nullptr;
  MemoryWitness memory;
  Launch launch;
  std::string
      guardian;  // path of this program: it ends what is left should the controller be killed; "": nobody does
  // Of a command: two descriptors, for what it writes to stdout and stderr while the disk of the record is full; none: it is lost.
  std::vector<int> live;
  FramesOf frames_of;  // of processes of a command
  // Of a foreign kernel, asked when its process has ended well: the trial that a fresh process calls alone, as the twin.
  std::function<std::optional<int>()> first_wrong;
  // What is wrong with the machine's cards now and was not before this case: asked when a command has ended badly. None: no cards.
  std::function<std::vector<Fact>()> card_facts;
  // Deadlines and periods in milliseconds; a test shortens them.
  StillLimits still;
  std::int64_t look_apart_ms = 2'000;  // between the two stack samples
  std::int64_t peer_grace_ms =
      5'000;  // for the others to record and end once one rank has ended badly
  std::int64_t term_grace_ms = 2'000;  // between TERM and KILL
  // Without a word over the link to a rank's agent, which speaks twice a second: a machine that is busy, or a cable that is put
  // back, is not yet a lost host.
  std::int64_t link_deadline_ms = 20'000;
};

// Called on the runner's thread. A throw from one that gets an event does not stop the case: it is not called again, and the runner
// ends as `recording_failed`.
struct RunnerHooks {
  // Every event, the controller's included, in order, after it is in the log.
  std::function<void(const Event&)> on_event;
  // Those that stay in the record, in its order; of a command later, and fewer (harness/evidence/step_fold.h).
  std::function<void(const Event&)> on_kept;
  std::function<void()> on_tick;  // a few times a second: progress line
};

struct RunResult {
  double seconds = 0.0;
  bool interrupted = false;  // the case was ended for it
  bool recording_failed = false;
  std::string recording_error;
  std::string events_hash;  // of what is in the log (run_folder.h)
};

// REQUIRES: nothing of the thread but that it waits here: workers die with the thread that started them. Several threads may each
// run a case of their own.
// Throws: nsa::Error when a worker cannot be started at all (missing file, no memory, no process slots), or when the folder
// cannot be written or holds an attempt already. Then no process is left either.
[[nodiscard]] RunResult run_case(const Case& the_case,
                                 const RunnerOptions& options,
                                 const RunnerHooks& hooks);

}  // namespace harness
