// What of this process's environment a worker gets: an allow-list, so that no secret is passed on or stored. Pure functions
// of what they are given.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/scenario.h"

namespace harness::cli {

using Variables = std::vector<std::pair<std::string, std::string>>;  // name, value; sorted by name

// This process's variables.
[[nodiscard]] Variables own_variables();

[[nodiscard]] std::vector<std::string> as_texts(const Variables& variables);  // NAME=value

// Those of `all` that workers get and the database keeps: what every program needs, and what steers LibTorch, CUDA, NCCL and
// OpenMP, but for names that look like a secret's (token, key, password, auth, ...), in any case of letters.
[[nodiscard]] Variables allowed_variables(const Variables& all);

// Those of `allowed` that steer LibTorch, CUDA, NCCL or OpenMP from outside the scenario: printed before a run.
[[nodiscard]] Variables steering_variables(const Variables& allowed);

// NAME=value for the ranks and the twin of one case: `allowed`; the cores it may use shared out over the ranks as threads where
// the user did not say; the LibTorch of NSA_TORCH found first.
[[nodiscard]] std::vector<std::string> worker_environment(const Variables& allowed,
                                                          const Scenario& scenario,
                                                          int cores);

}  // namespace harness::cli
