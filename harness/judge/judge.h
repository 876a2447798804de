// Evidence -> verdicts -> one outcome. Pure: judging an old run again gives the same answer.
#pragma once

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
      findings;  // all of them: the initiating one first, then cascades, teardown, unknown
};

// Runs the case's checks over `evidence`, orders the findings and derives the outcome (SPEC 6, 7, 11):
//  - a check that throws, or whose name is not in `checks`, is inconclusive with the reason;
//  - no check judged anything: INCONCLUSIVE;
//  - a case that did not pass while the disk was full: ERROR, and no finding;
//  - a fault that was asked for and never fired: ERROR (in a bisection only where all candidates are there);
//  - a kill that was asked for and never happened, in a case that did not fail: ERROR;
//  - `expect` met: PASS, missed: FAIL (the trials of a bisection are not compared with it: see bisection.h);
//  - then a known failure that is as known: XFAIL, a pass where one is known: XPASS.
[[nodiscard]] Judgement judge(const Evidence& evidence, std::span<const Check> checks);

// The same without `fault`, `expect` and `known`: what checks are given.
[[nodiscard]] Evidence blinded(Evidence evidence);

// Gives each finding its role: the earliest kind of (a signal the controller did not send, data, forward, reachability,
// ready, reduction, update, state, own exception) is initiating, consequences are cascade, the controller's own are teardown.
void assign_roles(std::vector<Finding>& findings);

}  // namespace harness
