// What the controller records where it could not see what ranks did: those of a launcher, on this host or another, and of a
// command.
#pragma once

namespace harness {

// It could not reach a rank any more: "rank 1: nothing came over its link for 20 s". What the rank did then is not known.
inline constexpr const char* kLinkLostFact = "link_lost";
// A launcher, or whoever started an agent, asked for the end of a rank that was not done: "rank 1".
inline constexpr const char* kEndedByLauncherFact = "ended_by_launcher";
// A launcher ended badly: "was ended by signal 9".
inline constexpr const char* kLauncherEndedFact = "launcher_ended";
// The process between the controller and a command (run/processes/keeper.h) ended before the command: "was ended by signal 9". How
// the command would have ended is not known.
inline constexpr const char* kKeeperEndedFact = "keeper_ended";
// Processes that a command of the user's own left behind, and that went on when it had ended: "4711 (python3 train.py)". They were
// ended.
inline constexpr const char* kWentOnFact = "went_on";
// Of a rank of a command: what it printed when C++ ended it for an exception that nothing caught, "c10::Error: CUDA error: ...".
inline constexpr const char* kAbortedFact = "aborted";
// As kLeftBehindFact (evidence.h), of processes that were still there after SIGKILL.
inline constexpr const char* kStayedFact = "stayed_behind";

}  // namespace harness
