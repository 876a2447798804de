// How a case ended: what a scenario may expect, what the judge says and what exit codes are made of.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "nsa/base/names.h"

namespace harness {

enum class Outcome { pass, fail, hang, slow, crash, oom, skip, error, inconclusive, xfail, xpass };
inline constexpr std::array kOutcomeNames = {"PASS",
                                             "FAIL",
                                             "HANG",
                                             "SLOW",
                                             "CRASH",
                                             "OOM",
                                             "SKIP",
                                             "ERROR",
                                             "INCONCLUSIVE",
                                             "XFAIL",
                                             "XPASS"};
constexpr nsa::Names names_of(Outcome /*of*/) {
  return kOutcomeNames;
}

// What was judged did not go as it should: FAIL, HANG, SLOW, CRASH, OOM.
constexpr bool has_failed(Outcome outcome) {
  return outcome == Outcome::fail || outcome == Outcome::hang || outcome == Outcome::slow ||
         outcome == Outcome::crash || outcome == Outcome::oom;
}

[[nodiscard]] const char* name_of(Outcome value);  // "PASS"
[[nodiscard]] std::optional<Outcome> outcome_from(std::string_view name);

}  // namespace harness
