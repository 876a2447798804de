#include "harness/judge/judge.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <exception>
#include <string_view>
#include <utility>

#include "harness/evidence/hosts.h"
#include "harness/evidence/paired_steps.h"
#include "harness/judge/asked.h"
#include "harness/judge/audit/record_audit.h"
#include "harness/judge/codes/codes.h"
#include "harness/judge/contradicting_verdicts.h"
#include "harness/judge/expectation.h"
#include "harness/judge/find_cause.h"
#include "harness/judge/not_judged.h"
#include "harness/judge/unused_facts.h"
#include "harness/scenario/bisect.h"
#include "harness/scenario/experiment.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

CheckResult run_check(const std::string& name,
                      const Evidence& evidence,
                      std::span<const Check> checks) {
  CheckResult result;
  const auto check = std::find_if(
      checks.begin(), checks.end(), [&](const Check& candidate) { return candidate.name == name; });
  if (check == checks.end()) {
    result.reason = "no check of this name is known to this program";
  } else {
    try {
      result = check->judge(evidence);
    } catch (const std::exception& error) {
      result = CheckResult{};
      result.reason = std::string("the check itself failed: ") + error.what();
    }
  }
  result.check = name;
  for (Finding& finding : result.findings) finding.check = name;
  for (NotJudged& lacking : result.not_judged) lacking.check = name;
  return result;
}

// Roles are given over all checks together and copied back, so that a verdict and the case say the same.
std::vector<Finding> order_findings(std::vector<CheckResult>& verdicts) {
  std::vector<Finding> all;
  std::vector<NotJudged> lacking;
  for (const CheckResult& verdict : verdicts) {
    all.insert(all.end(), verdict.findings.begin(), verdict.findings.end());
    lacking.insert(lacking.end(), verdict.not_judged.begin(), verdict.not_judged.end());
  }
  assign_roles(all);
  tell_not_judged(lacking, all);
  std::size_t next = 0;
  for (CheckResult& verdict : verdicts) {
    for (Finding& finding : verdict.findings) finding = all[next++];
  }
  std::sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) {
    return a.number < b.number;
  });
  return all;
}

Outcome outcome_of_code(std::string_view name) {
  const Code* code = find_code(name);
  return code == nullptr ? Outcome::fail : code->outcome;
}

std::string one_line(const Finding& finding) {
  return title_of(finding.code, finding.site) + " — " + finding.statement;
}

std::size_t initiating_count(const Judgement& judged) {
  return static_cast<std::size_t>(
      std::count_if(judged.findings.begin(), judged.findings.end(), [](const Finding& finding) {
        return finding.role == Role::initiating;
      }));
}

bool any(const Judgement& judged, Verdict wanted) {
  return std::any_of(judged.verdicts.begin(),
                     judged.verdicts.end(),
                     [&](const CheckResult& verdict) { return verdict.verdict == wanted; });
}

// Each once, with the checks that give it.
std::string reasons(const Judgement& judged, Verdict wanted) {
  std::vector<std::pair<std::string, std::vector<std::string>>> checks_of;
  for (const CheckResult& verdict : judged.verdicts) {
    if (verdict.verdict != wanted) continue;
    const auto known = std::find_if(checks_of.begin(), checks_of.end(), [&](const auto& entry) {
      return entry.first == verdict.reason;
    });
    if (known == checks_of.end()) {
      checks_of.push_back({verdict.reason, {verdict.check}});
    } else {
      known->second.push_back(verdict.check);
    }
  }
  std::vector<std::string> parts;
  for (const auto& [reason, checks] : checks_of) parts.push_back(nsa::join(checks) + ": " + reason);
  return nsa::join(parts, "; ");
}

// What a pass on something of the user's own speaks of: of a command the verdict on every step says it, of a kernel that on its
// trials, which also says what was not tried.
std::string scope_of(const Scenario& scenario, const Judgement& judged) {
  if (is_seen_from_outside(scenario, judged)) return "ended by itself";
  const std::size_t count = judged.verdicts.size();
  const std::string passed =
      std::to_string(count) + (count == 1 ? " check passed" : " checks passed");
  const auto said_by = [&](const char* check) {
    return std::find_if(judged.verdicts.begin(),
                        judged.verdicts.end(),
                        [&](const CheckResult& verdict) { return verdict.check == check; });
  };
  const auto steps = said_by(kSaysScope);
  if (scenario.is_command() && steps != judged.verdicts.end()) return steps->reason + "; " + passed;
  const auto trials = said_by(kSaysTrials);
  if (scenario.is_foreign() && trials != judged.verdicts.end())
    return passed + ": " + trials->reason;
  return passed;
}

// A launcher of the user's own may start the ranks again: the last life is judged, and the others are told.
std::string told_earlier_lives(const Evidence& evidence) {
  std::vector<std::string> ends;
  for (const auto& relaunched : evidence.relaunches) {
    if (relaunched.row.reason != Relaunched::kWell) ends.push_back(relaunched.row.reason);
  }
  return ends.empty() ? ""
                      : "before that, the launcher had started the ranks again after " +
                            nsa::join(ends, ", then after ");
}

// What Python only prints of a thread does not fail a command, and is no secret of a green one.
std::string told_dead_threads(const Evidence& evidence) {
  std::vector<std::string> ends;
  for (const auto& fact : evidence.facts) {
    if (fact.row.name != kThreadDiedFact) continue;
    const std::string of = fact.process >= 0 ? " of " + process_name(fact.process) : "";
    ends.push_back("a thread" + of + " ended by " + fact.row.value + ", and the process went on");
  }
  return nsa::join(ends, "; ");
}

// Adds a remark to what is said first of a case.
void add_remark(std::string remark, Judgement& judged) {
  if (remark.empty()) return;
  const auto add = [&](std::string& text) {
    std::string more = remark;
    const bool sentence = text.ends_with('.');
    if (sentence) more.front() = static_cast<char>(std::toupper(more.front()));
    text += sentence ? " " + more + "." : "; " + more;
  };
  add(judged.reason);
  for (CheckResult& verdict : judged.verdicts) {
    if (verdict.check == "process_clean" && verdict.verdict == Verdict::pass) add(verdict.reason);
  }
  if (!judged.findings.empty()) add(judged.findings.front().statement);
}

void derive_failure(Judgement& judged) {
  judged.outcome = Outcome::fail;
  judged.reason = reasons(judged, Verdict::fail);
  if (judged.findings.empty() || judged.findings.front().role == Role::teardown) return;
  judged.outcome = outcome_of_code(judged.findings.front().code);
  judged.reason = one_line(judged.findings.front());
  const std::size_t causes = initiating_count(judged);
  if (causes > 1) judged.reason += " (1 of " + std::to_string(causes) + " independent causes)";
}

void derive_outcome(const Scenario& scenario, Judgement& judged) {
  const std::string left_out = not_asked_text(scenario, judged);
  if (judged.verdicts.empty()) {
    judged.outcome = Outcome::inconclusive;
    judged.reason = "nothing was judged: " +
                    (left_out.empty() ? std::string("the scenario names no check") : left_out);
  } else if (any(judged, Verdict::fail)) {
    derive_failure(judged);
  } else if (any(judged, Verdict::inconclusive)) {
    judged.outcome = Outcome::inconclusive;
    judged.reason = reasons(judged, Verdict::inconclusive);
  } else {
    judged.outcome = Outcome::pass;
    judged.reason = scope_of(scenario, judged) + (left_out.empty() ? "" : "; " + left_out);
  }
}

// In a trial of a part of a bisection's candidates there may be nothing for the fault to do; nor in an experiment, which is
// judged as if nobody had planted anything.
bool fault_never_fired(const Evidence& evidence) {
  if (!evidence.the_case.scenario.fault || is_experiment(evidence.the_case)) return false;
  if (is_trial(evidence.the_case) && !is_whole_trial(evidence.the_case)) return false;
  return std::none_of(evidence.faults_fired.begin(),
                      evidence.faults_fired.end(),
                      [](const auto& fired) { return fired.process >= 0 && fired.row.times > 0; });
}

// What failed before, failed whether or not a kill came; only a case that would be good shows less than it was meant to.
bool kill_never_happened(const Evidence& evidence, Outcome outcome) {
  return evidence.the_case.scenario.life.kill_step > 0 && evidence.relaunches.empty() &&
         (outcome == Outcome::pass || outcome == Outcome::inconclusive);
}

std::string kill_text(const LifeConfig& life) {
  return "the kill in step " + std::to_string(life.kill_step) + ", phase " + life.kill_phase +
         ", never happened: the ranks had ended before";
}

bool interrupted(const Evidence& evidence) {
  return std::any_of(evidence.stopped.begin(), evidence.stopped.end(), [](const auto& stopped) {
    return stopped.row.reason == "interrupted";
  });
}

bool tells_of_a_full_disk(const std::string& what) {
  return what.find("No space left on device") != std::string::npos ||
         what.find("Disk quota exceeded") != std::string::npos;
}

// What a full disk did to the ranks and to their record; "" where there was room. A process of the user's writes to disks of its
// own: that one of them is full says nothing of the record.
std::string full_disk(const Evidence& evidence) {
  for (const auto& fact : evidence.facts) {
    if (fact.process == kController && fact.row.name == kDiskFullFact) return fact.row.value;
  }
  const Scenario& scenario = evidence.the_case.scenario;
  if (scenario.is_command() || scenario.is_foreign()) return "";
  for (const auto& error : evidence.errors) {
    if (!tells_of_a_full_disk(error.row.what)) continue;
    return process_name(error.process) + " found no space left on the device";
  }
  return "";
}

// What the loader said of workers that it could not start; "" where they began.
std::string cannot_start(const Evidence& evidence) {
  for (const auto& fact : evidence.facts) {
    if (fact.process == kController && fact.row.name == kCannotStartFact) return fact.row.value;
  }
  return "";
}

std::vector<std::string> told_by_controller(const Evidence& evidence,
                                            std::string_view name,
                                            const std::string& before) {
  std::vector<std::string> all;
  for (const auto& fact : evidence.facts) {
    if (fact.process == kController && fact.row.name == name) {
      all.push_back(before + fact.row.value);
    }
  }
  return all;
}

// Why nobody saw what ranks did, or let them: a lost link, a launcher that ended them. "" where neither is so. What a rank did that
// nobody saw is not known, and what its peers did then may follow from that alone. A launcher that fails beside ranks that are well
// says nothing of them.
std::string lost_ranks(const Evidence& evidence, Outcome outcome) {
  std::vector<std::string> why =
      told_by_controller(evidence, kLinkLostFact, "the link was lost to ");
  const auto add = [&](std::vector<std::string> more) {
    why.insert(why.end(), more.begin(), more.end());
  };
  add(told_by_controller(evidence, kEndedByLauncherFact, "the launcher asked for the end of "));
  add(told_by_controller(
      evidence, kKeeperEndedFact, "the process of nsa-harness that keeps the command "));
  if (!why.empty() || outcome != Outcome::pass) {
    add(told_by_controller(evidence, kLauncherEndedFact, "the launcher "));
  }
  return nsa::join(why, "; ");
}

// No rank is blamed for what nobody saw.
void blame_the_hosts(const std::string& why, Judgement& judged) {
  judged.reason = why +
                  ": the record is not whole, and no rank is blamed; judged from what there " +
                  "is: " + judged.reason;
  judged.outcome = Outcome::error;
  judged.findings.clear();
}

// Nothing of the model ran.
void blame_the_installation(const std::string& why, Judgement& judged) {
  judged.reason = "the worker cannot start (" + why +
                  "): is LibTorch where it was when this was built? Else set NSA_TORCH";
  judged.outcome = Outcome::error;
  judged.findings.clear();
}

// Nothing that failed on a full disk is blamed on the ranks.
void blame_the_disk(const std::string& why, Judgement& judged) {
  judged.reason = "the disk is full (" + why + "), so the record is not whole; judged from what " +
                  "there is: " + judged.reason;
  judged.outcome = Outcome::error;
  judged.findings.clear();
}

// A record that is wrong in one place is believed in none.
void blame_the_record(const std::string& why, Judgement& judged) {
  judged.reason = "the record contradicts itself: " + why + "; no finding is reported from it";
  judged.outcome = Outcome::error;
  judged.findings.clear();
}

void blame_the_verdicts(const std::string& why, Judgement& judged) {
  judged.reason =
      "two verdicts contradict each other: " + why + "; no finding is reported from them";
  judged.outcome = Outcome::error;
  judged.findings.clear();
}

void compare_with_expectation(const Expectation& expected, Judgement& judged) {
  const std::string missed = expectation_missed(expected, judged);
  judged.reason =
      missed.empty() ? "as expected: " + std::string(name_of(judged.outcome)) + ", " + judged.reason
                     : missed;
  judged.outcome = missed.empty() ? Outcome::pass : Outcome::fail;
}

void compare_with_known(const KnownFailure& known, Judgement& judged) {
  const bool same_code = known.code.empty() || has_initiating(known.code, judged);
  if (judged.outcome == Outcome::pass) {
    judged.outcome = Outcome::xpass;
    judged.reason = "passed, but is known to fail until " + known.until + ": " + known.because;
  } else if (judged.outcome == known.outcome && same_code) {
    judged.outcome = Outcome::xfail;
    judged.reason = known.because + " (known until " + known.until + "; " + judged.reason + ")";
  }
}

// Somebody plants a fault to see it found. That nothing notices it says that these checks are blind to it: no result of the
// model, and no reason to trust their passes. A trial of a bisection is a step of a search: see bisection.h.
bool fault_unnoticed(const Scenario& scenario, const Judgement& judged) {
  return scenario.fault && !scenario.expect && scenario.bisect.over.empty() &&
         judged.outcome == Outcome::pass;
}

}  // namespace

Evidence blinded(Evidence evidence) {
  Scenario& scenario = evidence.the_case.scenario;
  scenario.fault.reset();
  scenario.expect.reset();
  scenario.known.reset();
  // A scenario is often named after the fault that it plants, and its text holds both.
  for (std::string* told : {&scenario.name, &scenario.path, &scenario.text, &scenario.about}) {
    told->clear();
  }
  evidence.the_case.point.clear();
  evidence.the_case.id.clear();
  evidence.faults_fired.clear();
  return evidence;
}

Judgement judge(const Evidence& evidence,
                std::span<const Check> checks,
                const std::function<bool()>& stopped) {
  Judgement judged;
  if (evidence.the_case.scenario.is_command() && !evidence.relaunches.empty()) {
    Judgement last = judge(evidence.last_life(), checks, stopped);
    add_remark(told_earlier_lives(evidence), last);
    return last;
  }
  const Evidence shown = with_paired_steps(blinded(evidence));
  for (const std::string& name : evidence.the_case.scenario.checks) {
    if (stopped && stopped()) {
      return {Outcome::inconclusive, "interrupted while it was judged", {}, {}};
    }
    if (is_asked(name, evidence, checks)) judged.verdicts.push_back(run_check(name, shown, checks));
  }
  judged.findings = order_findings(judged.verdicts);
  const auto judge_again = [&](const Evidence& other) {
    std::vector<CheckResult> verdicts;
    for (const CheckResult& verdict : judged.verdicts) {
      if (verdict.findings.empty() && verdict.departed.empty()) continue;
      verdicts.push_back(run_check(verdict.check, other, checks));
    }
    return verdicts;
  };
  const Scenario& scenario = evidence.the_case.scenario;
  derive_outcome(scenario, judged);
  if (interrupted(evidence)) {
    judged.outcome = Outcome::inconclusive;
    judged.reason = "interrupted";
  } else if (const std::string said = cannot_start(evidence); !said.empty()) {
    blame_the_installation(said, judged);
  } else if (const std::string why = full_disk(evidence);
             !why.empty() && judged.outcome != Outcome::pass) {
    blame_the_disk(why, judged);
  } else if (const std::string lost = lost_ranks(evidence, judged.outcome); !lost.empty()) {
    blame_the_hosts(lost, judged);
  } else if (const Contradiction told = contradiction_in(evidence)) {
    blame_the_record(told.sentence, judged);
  } else if (const std::string unused = unused_fact(shown, judged.verdicts, judge_again);
             !unused.empty()) {
    blame_the_record(unused, judged);
  } else if (const std::string both = contradiction_between(judged.verdicts, evidence);
             !both.empty()) {
    blame_the_verdicts(both, judged);
  } else if (fault_never_fired(evidence)) {
    judged.outcome = Outcome::error;
    judged.reason = "fault " + scenario.fault->name + " never fired";
  } else if (kill_never_happened(evidence, judged.outcome)) {
    judged.outcome = Outcome::error;
    judged.reason = kill_text(scenario.life);
  } else if (is_compared_later(scenario, judged)) {
    // What is planted, and what is expected of it, shows where the levels are compared.
  } else if (scenario.expect && scenario.bisect.over.empty()) {
    compare_with_expectation(*scenario.expect, judged);
  } else if (!is_experiment(evidence.the_case) && fault_unnoticed(scenario, judged)) {
    judged.outcome = Outcome::error;
    judged.reason = "fault " + scenario.fault->name + " was planted and acted, and no check " +
                    "noticed it: " + nsa::join(scenario.checks);
  }
  if (judged.outcome == Outcome::pass) add_remark(told_dead_threads(evidence), judged);
  if (scenario.known && !interrupted(evidence)) compare_with_known(*scenario.known, judged);
  return judged;
}

}  // namespace harness
