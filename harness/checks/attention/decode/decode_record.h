// What kind decode recorded: a prompt of `prompt` tokens and then single tokens, against the whole sequence at once.
#pragma once

#include <optional>

#include "harness/checks/artefacts.h"
#include "harness/checks/result.h"

namespace harness::checks {

inline constexpr const char* kPrefill = "decode_prefill";
inline constexpr const char* kSteps = "decode_steps";

// Tokens of the prompt: the position of the first token decoded alone. Says in `result` what is missing.
[[nodiscard]] std::optional<std::int64_t> prompt_length(const Evidence& evidence,
                                                        ResultBuilder& result);

// A layer's file of that name.
[[nodiscard]] std::optional<nsa::SafetensorsFile> open_decoded(const Evidence& evidence,
                                                               const std::string& name,
                                                               int layer,
                                                               ResultBuilder& result);

// Whether the file has such a tensor; says what is missing.
[[nodiscard]] bool has_shape(const nsa::SafetensorsFile& file,
                             const std::string& name,
                             const std::vector<std::int64_t>& shape,
                             ResultBuilder& result);

}  // namespace harness::checks
