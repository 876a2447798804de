// How a case ended: what a scenario may expect, what the judge says and what exit codes are made of.
#pragma once

#include <optional>
#include <string_view>

namespace harness {

enum class Outcome { pass, fail, hang, slow, crash, oom, skip, error, inconclusive, xfail, xpass };

[[nodiscard]] const char* name_of(Outcome value);  // "PASS"
[[nodiscard]] std::optional<Outcome> outcome_from(std::string_view name);

}  // namespace harness
