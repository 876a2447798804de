// Which checks of a case are asked. Without its evidence a check is not asked: it gives no verdict, passes nothing, and is said to
// be left out. Told from rows alone, so that a report says the same.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/judge/judge.h"

namespace harness {

// The check that compares the cases of a run which differ in the level of observation alone. It is asked of the last of them that
// runs (Evidence::other_levels); what such a scenario expects is expected of that case.
inline constexpr const char* kComparesLevels = "levels_agree";
// The check that says which steps of a command of the user's own were looked at.
inline constexpr const char* kSaysScope = "steps_agree";
inline constexpr const char* kSaysTrials = "kernel_is_oracle";  // of a kernel of the user's own

[[nodiscard]] bool is_asked(const std::string& check,
                            const Evidence& evidence,
                            std::span<const Check> checks);

// Checks of the scenario without a verdict, in its order.
[[nodiscard]] std::vector<std::string> not_asked(const Scenario& scenario,
                                                 const Judgement& judgement);
// Why one of them has none: "at observe 1"; "" where nothing of the scenario tells it.
[[nodiscard]] std::string why_not_asked(const Scenario& scenario, const std::string& check);
// A command of the user's own whose script does not have the two lines: the verdict is on its end alone.
[[nodiscard]] bool is_seen_from_outside(const Scenario& scenario, const Judgement& judgement);
// "not asked at observe 1: finite, causal", "weights, gradients and NaN were not looked at"; "" where all were.
[[nodiscard]] std::string not_asked_text(const Scenario& scenario, const Judgement& judgement);

// Every check that the scenario names was asked, but for what a level of observation compares later.
[[nodiscard]] bool is_fully_asked(const Scenario& scenario, const Judgement& judgement);

// A case that runs later compares this one with itself.
[[nodiscard]] bool is_compared_later(const Scenario& scenario, const Judgement& judgement);

}  // namespace harness
