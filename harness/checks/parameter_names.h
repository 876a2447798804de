// Names of parameters, from a ModelConfig and back to their place: "blocks.3.attn.W_K_cmp.weight" is layer 3, branch cmp,
// short name "W_K_cmp". Written from the definition of the model; shares no code with the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/judge/finding.h"
#include "nsa/base/config.h"

namespace harness::checks {

// Every parameter that a model of this configuration has, in the order of the model.
[[nodiscard]] std::vector<std::string> parameter_names(const nsa::ModelConfig& config);

// -1 for a parameter that is not of one layer.
[[nodiscard]] int layer_of(std::string_view param);

// Without "blocks.N.", "attn." and ".weight".
[[nodiscard]] std::string short_name(std::string_view param);

// cmp, sel or win where the parameter serves that branch alone, else "".
[[nodiscard]] std::string branch_of(std::string_view param);

// The same of a seam: cmp of "attend_cmp" and "compress".
[[nodiscard]] std::string branch_of_seam(std::string_view seam);

// Parameters whose gradient is zero by the equations at this length: a softmax over one key does not depend on it, and a
// branch without keys depends on nothing. They need not be reached either when the branch has no key.
struct Uninfluential {
  std::vector<std::string> zero;         // short names
  std::vector<std::string> unreachable;  // short names
};
[[nodiscard]] Uninfluential uninfluential(const nsa::ModelConfig& config, std::int64_t seq_len);

// layers, branch and param as far as all of `params` agree; what they do not agree in goes to detail.params (short names)
// with detail.param_count.
[[nodiscard]] Site site_of_params(const std::vector<std::string>& params);

// "blocks.3.attn.W_K_cmp.weight, blocks.4.… and 7 more"
[[nodiscard]] std::string some_of(const std::vector<std::string>& names, std::size_t most = 4);

}  // namespace harness::checks
