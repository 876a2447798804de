// A bisection: a minimal set of a parameter's candidate values that makes a case fail, by QuickXplain (U. Junker,
// 2004). A trial is a case whose parameter is one subset. What comes next and what was found is a pure function of the
// trials' outcomes, so that a run and a report made from its rows years later say the same.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/scenario/case.h"

namespace harness {

struct BisectTrial {
  std::vector<std::string> subset;  // in the order of the candidates
  Outcome outcome = Outcome::inconclusive;
};

struct BisectProgress {
  enum class State {
    searching,       // `next` is to be tried
    minimal,         // `minimal` was seen to fail; where larger sets break more, no part of it does
    nothing_breaks,  // all candidates together pass
    broken_without_any,  // it fails without any candidate
    inconclusive,        // a trial neither passed nor failed
  };
  State state = State::searching;
  std::vector<std::string> next;
  std::vector<std::string> minimal;
  std::string conclusion;  // a sentence without a full stop
};

// The trials may be in any order; one more than was asked for does no harm. REQUIRES: at least one candidate.
[[nodiscard]] BisectProgress bisect_progress(const std::vector<std::string>& candidates,
                                             std::span<const BisectTrial> trials);

// The case with `subset` of its scenario's candidates in place of the parameter; the point of the axes says so.
// Throws: nsa::Error if that is no valid case.
[[nodiscard]] Case trial_of(const Case& base, const std::vector<std::string>& subset);

// What a trial was of: the last entry of its point. REQUIRES: the case came from trial_of().
[[nodiscard]] std::vector<std::string> subset_of(const Case& trial);
[[nodiscard]] bool is_trial(const Case& the_case);
// Of all candidates: whatever was planted must have been there.
[[nodiscard]] bool is_whole_trial(const Case& the_case);

// "[0, 3]", "[]": as YAML's flow style has it.
[[nodiscard]] std::string subset_text(const std::vector<std::string>& subset);

}  // namespace harness
