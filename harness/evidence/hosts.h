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
// Of a rank: the last line that was printed before it failed without an exception, by it or by a process of it.
inline constexpr const char* kLastLineFact = "last_line";
// Of a rank that a signal ended: the user's line in which it stood, as Python's faulthandler printed it.
inline constexpr const char* kFatalLineFact = "fatal_line";
// Of a rank, or of the controller if nothing tells whose it was: the exception that ended a thread, with the user's line.
inline constexpr const char* kThreadDiedFact = "thread_died";
// Of a rank of a command: what it was started with, "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE=2". Ranks that were started
// with different ones do not meet.
inline constexpr const char* kMeetingFact = "meeting";
// Of the controller: an exception that was printed, and nothing tells which of the ranks that failed it is of, or none failed.
inline constexpr const char* kSomebodysErrorFact = "somebodys_error";
// Of the controller, when a command has ended badly: what is wrong with a card of the machine, "card 0 (NVIDIA H100): Xid 79 ...".
inline constexpr const char* kCardFact = "card_trouble";
// As kLeftBehindFact (evidence.h), of processes that were still there after SIGKILL.
inline constexpr const char* kStayedFact = "stayed_behind";

}  // namespace harness
