// Evidence -> verdicts -> one outcome. Pure: judging an old run again gives the same answer.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/judge/check.h"

namespace harness {

struct Judgement {
  Outcome outcome = Outcome::inconclusive;
  std::string reason;                 // one line
  std::vector<CheckResult> verdicts;  // in the order of the scenario's checks
  std::vector<Finding>
      findings;  // all of them, by number: each initiating one with what follows from it
};

// Runs the case's checks over `evidence`, orders the findings and derives the outcome:
//  - a check that throws, or whose name is not in `checks`, is inconclusive with the reason;
//  - a check whose evidence is not recorded at the case's level of observation is not asked (asked.h);
//  - no check judged anything: INCONCLUSIVE;
//  - a case that did not pass while the disk was full, a record or verdicts that contradict themselves: ERROR, and no finding;
//  - a fault that was asked for and never fired: ERROR (in a bisection only where all candidates are there);
//  - a kill that was asked for and never happened, in a case that did not fail: ERROR;
//  - `expect` met: PASS, missed: FAIL (the trials of a bisection are not compared with it: see bisection.h; nor is a case that a
//    later one compares with itself: see asked.h);
//  - a fault was planted without `expect`, it acted, and everything passed: ERROR;
//  - then a known failure that is as known: XFAIL, a pass where one is known: XPASS.
// `stopped` is asked before each check; where it says yes, nothing is told of the others either: INCONCLUSIVE, "interrupted while
// it was judged".
[[nodiscard]] Judgement judge(const Evidence& evidence,
                              std::span<const Check> checks,
                              const std::function<bool()>& stopped = {});

// The same without `fault`, `expect` and `known`: what checks are given.
[[nodiscard]] Evidence blinded(Evidence evidence);

}  // namespace harness
