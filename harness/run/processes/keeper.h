// The process between the controller and a command of the user's own. What the command's processes leave behind becomes its
// child (a subreaper), whatever groups and sessions they made; so nothing of the command outlives it. What the command prints comes
// through it to the files of the record: a full disk takes nothing from the command. It judges nothing.
//
// It and the command go on if the controller is killed. A tool for diagnosis must not end a training.
#pragma once

#include <array>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "harness/run/processes/spawn_process.h"

namespace harness {

// The first argument of a program that is to keep the command after it.
inline constexpr const char* kKeepArgument = "--keep-command";

// Runs argv, an array that ends with null, looked for on PATH, and ends as it ended: the same exit code, or the same signal.
// Writes the command's pid and a newline to fd 3 before anything else, and how it ended as soon as it has.
// The command's stdout and stderr are pipes, or terminals where fd 4 and 5 are. What comes through them is appended to fd 1 and
// fd 2 as it comes. What these do not take goes to fd 4 and 5, if they are open, and is counted in a line at the end of fd 1 and 2.
// What the command leaves behind has a second to end by itself, and is written to fd 3 then. After that, and as soon as SIGTERM
// comes, all that is left gets SIGTERM, and two seconds later SIGKILL until nothing is left. Exit code 127 and a line on stderr:
// the command could not be started. REQUIRES: one thread. Returns the exit code.
[[nodiscard]] int keep(char** argv);

// The keeper passes these on to the command; with SIGWINCH the command's terminal takes the size of the real one.
inline constexpr std::array kPassedOn = {SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

// What a keeper has written.
struct KeeperSaid {
  pid_t command = 0;  // 0: not yet, or it could not be started
  std::optional<ExitStatus>
      end;  // of the command. Where the keeper has ended without it, somebody ended the keeper
  // "4711 (python3 train.py)": what the command left behind when it ended by itself
  std::vector<std::string> left;
};
[[nodiscard]] KeeperSaid read_keeper(std::string_view text);
// Takes what has come through its pipe since the last call into `heard`, and reads all of it. Never waits.
[[nodiscard]] KeeperSaid hear_keeper(int pipe, std::string& heard);

}  // namespace harness
