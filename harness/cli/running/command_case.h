// `run -- CMD...`: a command line of the user's own as a case of kind command, without a scenario file.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/case.h"

namespace harness::cli {

// What stood behind "--" on the command line of `run`; empty where there was none.
[[nodiscard]] const std::vector<std::string>& words_after_dashes();

// Takes "--" and what is behind it off the command line of `run`.
[[nodiscard]] std::vector<std::string> without_words_after_dashes(std::vector<std::string> words);

// Named after the program, or after the script that an interpreter runs: "train". Throws: nsa::Error.
[[nodiscard]] Case case_of_command(const CommandConfig& command, double budget_seconds);

// The words of this program as they are stored, those behind "--" included.
[[nodiscard]] std::vector<std::string> kept_command_line(const std::vector<std::string>& words,
                                                         bool keeps_arguments);

}  // namespace harness::cli
