// The process beside a rank: a launcher starts it, it joins the controller, starts the rank, and says and does what the controller
// would if the rank were its own child. It needs no LibTorch. When the launcher asks for its end, or the controller is not there
// any more, it ends the rank: nothing outlives its case.
#pragma once

#include "harness/run/join/standing.h"

namespace harness {

// The verb of this program that is one.
inline constexpr const char* kJoinVerb = "join";

inline constexpr const char* kControllerVariable = "NSA_HARNESS_CONTROLLER";  // ADDRESS:PORT
inline constexpr const char* kTokenVariable = "NSA_HARNESS_TOKEN";
// Where peers reach this rank, in numbers; default: where the controller is reached from.
inline constexpr const char* kAddressVariable = "NSA_HARNESS_ADDRESS";

// Takes all that it needs from the environment, and works until the controller has let it go. The exit code: 0 also where the rank
// failed, since a launcher ends the others when one of its processes fails; 6 where the controller was lost.
// REQUIRES: one thread. Throws: nsa::Error where it was not taken in.
[[nodiscard]] int join_as_rank(const GetVariable& variable);

}  // namespace harness
