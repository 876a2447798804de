// What a run's outcomes mean to whoever called: the first that applies. A pure function, tested as a table.
#pragma once

#include <span>

#include "harness/scenario/outcome.h"
#include "nsa/base/error.h"

namespace harness {

inline constexpr int kExitPass = 0;
inline constexpr int kExitFailed = 1;  // any FAIL, HANG, SLOW, CRASH, OOM, XPASS
inline constexpr int kExitInconclusive = 2;
inline constexpr int kExitUsage = 3;       // bad usage, scenario or configuration
inline constexpr int kExitNothing = 4;     // nothing judged, everything skipped
inline constexpr int kExitIncomplete = 5;  // interrupted, or could not record any more
inline constexpr int kExitError = 6;  // any ERROR, a canary or doctor failure, an altered record
inline constexpr int kExitInternal = 70;

// `incomplete`: the run was interrupted, or something of it could not be recorded.
[[nodiscard]] int exit_code(std::span<const Outcome> outcomes, bool incomplete);

// Of a command that ended with this error.
[[nodiscard]] int exit_code(const nsa::Error& error);

}  // namespace harness
