// A code in words: the row of the table, who gives it, who expects it, and how to see it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/cli/explain/uses.h"
#include "harness/judge/codes/codes.h"

namespace harness::cli {

[[nodiscard]] std::string code_text(const Code& code, const CodeUses& uses);
[[nodiscard]] nlohmann::json code_json(const Code& code, const CodeUses& uses);

// Every code with one line, by family.
[[nodiscard]] std::string codes_text();

// docs/codes.md
[[nodiscard]] std::string codes_markdown(const CodeUses& uses);

}  // namespace harness::cli
