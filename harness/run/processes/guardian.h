// A process beside the controller that does nothing until the controller is gone, killed perhaps, and then ends what is left of its
// case. It is no ancestor of the case's processes and has nothing to do with them but their mark.
#pragma once

#include "harness/run/processes/case_mark.h"
#include "harness/run/processes/spawn_process.h"

namespace harness {

// The first argument of a program that is to be the guardian; the mark's number and variable come after it.
inline constexpr const char* kGuardArgument = "--end-what-is-left";

// How Process::spawn() starts `program` as the guardian.
[[nodiscard]] ProcessRequest guardian_of(const CaseMark& mark, const std::string& program);

// Waits until fd 3, a pipe, has no reader any more and no keeper of the case lives, and ends the rest. A keeper goes on with its
// command without the controller.
// REQUIRES: argv ends with null, after the two words of the mark. Returns the exit code.
[[nodiscard]] int guard(char** argv);

}  // namespace harness
