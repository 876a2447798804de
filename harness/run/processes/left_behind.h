// What the processes of a case leave behind in groups and sessions of their own, where a signal to the group does not reach it. They
// have the case's mark in their environment, as they were started; one that was started with an empty environment is not found.
#pragma once

#include <string>
#include <vector>

namespace harness {

// "NAME=value", to be put into the environment of every process of the case that keeps its files in `folder`.
[[nodiscard]] std::string case_mark(const std::string& folder);

// Kills all processes with this mark until none is left, for two seconds at most. The names of those that were there, each once
// and in order. REQUIRES: the case's own processes have been collected.
[[nodiscard]] std::vector<std::string> end_left_behind(const std::string& mark);

}  // namespace harness
