#include "reports/selftest_tally.h"

#include <algorithm>
#include <cmath>

#include "harness/judge/asked.h"
#include "harness/judge/expectation.h"
#include "harness/store/bisection.h"
#include "nsa/base/text.h"

namespace reports {
namespace {

using harness::Finding;
using harness::Outcome;

std::string first_of(const std::string& codes) {
  return codes.substr(0, codes.find(" or "));
}

const Finding* first_cause(const harness::Judgement& judgement) {
  for (const Finding& finding : judgement.findings) {
    if (finding.role == harness::Role::initiating) return &finding;
  }
  return nullptr;
}

std::string told(const harness::Judgement& judgement) {
  const Finding* cause = first_cause(judgement);
  if (cause != nullptr) return harness::title_of(cause->code, cause->site);
  const std::string name = harness::name_of(judgement.outcome);
  return judgement.reason.empty() ? name : name + ": " + judgement.reason;
}

class Tally {
 public:
  void add(const harness::CaseRecord& record) {
    if (!record.skip_reason.empty()) {
      ++tally_.left_out;
      return;
    }
    const harness::Case the_case =
        harness::case_from_json(record.case_json, "case " + record.label);
    if (the_case.scenario.fault) {
      add_fault(record, the_case.scenario);
    } else {
      add_healthy(record);
    }
  }

  [[nodiscard]] SelftestTally take() { return std::move(tally_); }

 private:
  void add_healthy(const harness::CaseRecord& record) {
    ++tally_.healthy;
    const Outcome outcome = harness::outcome_of(record);
    if (outcome == Outcome::pass) return;
    const bool undecided = outcome == Outcome::inconclusive || outcome == Outcome::error;
    ++(undecided ? tally_.undecided : tally_.alarms);
    tally_.missed.push_back(
        {record.label, "PASS", record.judgement ? told(*record.judgement) : "never judged"});
  }

  void add_fault(const harness::CaseRecord& record, const harness::Scenario& scenario) {
    if (!record.judgement || !scenario.expect) return;
    const harness::Judgement& judgement = *record.judgement;
    if (is_compared_later(scenario, judgement)) return;
    const harness::Expectation& wanted = *scenario.expect;
    const Finding* cause = first_cause(judgement);
    if (cause == nullptr && judgement.outcome == Outcome::error) {
      ++tally_.idle;
      tally_.missed.push_back(
          {record.label, harness::title_of(wanted.code, wanted.site), told(judgement)});
      return;
    }
    const bool preferred = cause != nullptr && cause->code == first_of(wanted.code);
    const bool placed =
        std::any_of(judgement.findings.begin(), judgement.findings.end(), [&](const Finding& one) {
          return one.role == harness::Role::initiating &&
                 harness::code_matches(wanted.code, one.code) &&
                 harness::site_matches(wanted.site, one.site);
        });
    for (FaultTally* into : {&tally_.by_code[first_of(wanted.code)], &tally_.all}) {
      ++into->faults;
      into->detected += cause != nullptr ? 1 : 0;
      into->preferred += preferred ? 1 : 0;
      into->placed += placed ? 1 : 0;
      into->seconds.push_back(record.seconds);
    }
    if (!preferred || !placed) {
      tally_.missed.push_back(
          {record.label, harness::title_of(wanted.code, wanted.site), told(judgement)});
    }
  }

  SelftestTally tally_;
};

nlohmann::json rate_json(int some, int all) {
  const Share share = wilson(some, all);
  return {{"some", some}, {"all", all}, {"low", share.low}, {"high", share.high}};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

bool is_selftest(const harness::RunRecord& run) {
  return run.option("verb") == "selftest";
}

SelftestTally selftest_tally(std::span<const harness::CaseRecord> cases) {
  Tally tally;
  for (const harness::CaseRecord& record : cases) tally.add(record);
  return tally.take();
}

Share wilson(int some, int all) {
  if (all == 0) return {};
  constexpr double kZ = 1.959963984540054;  // of 95 %
  const double n = all;
  const double p = some / n;
  const double scale = 1.0 + kZ * kZ / n;
  const double middle = (p + kZ * kZ / (2.0 * n)) / scale;
  const double half = kZ / scale * std::sqrt(p * (1.0 - p) / n + kZ * kZ / (4.0 * n * n));
  return {some == 0 ? 0.0 : middle - half, some == all ? 1.0 : middle + half};
}

std::string rate_text(int some, int all) {
  std::string text = std::to_string(some) + " of " + std::to_string(all);
  if (all == 0) return text;
  const auto percent = [](double share) { return nsa::to_text(100.0 * share, 3); };
  const Share share = wilson(some, all);
  return text + " (" + percent(static_cast<double>(some) / all) + " %, " + percent(share.low) +
         " to " + percent(share.high) + ")";
}

std::string selftest_lines(const SelftestTally& tally) {
  const FaultTally& all = tally.all;
  std::string text = "planted faults detected  " + rate_text(all.detected, all.faults) + "\n" +
                     "preferred code           " + rate_text(all.preferred, all.faults) + "\n" +
                     "right code and place     " + rate_text(all.placed, all.faults) + "\n" +
                     "false alarms             " + rate_text(tally.alarms, tally.healthy) + "\n";
  if (!all.seconds.empty()) {
    text += "time to a verdict        " + nsa::to_text(median(all.seconds), 3) + " s, at most " +
            nsa::to_text(*std::max_element(all.seconds.begin(), all.seconds.end()), 3) + " s\n";
  }
  const auto line = [&](int count, const char* what) {
    if (count > 0) text += std::to_string(count) + what + "\n";
  };
  line(tally.undecided, " healthy cases were not decided");
  line(tally.idle, " faults were planted and changed nothing");
  line(tally.left_out, " cases were left out: this machine cannot run them");
  return text;
}

nlohmann::json selftest_json(const SelftestTally& tally) {
  const FaultTally& all = tally.all;
  auto missed = nlohmann::json::array();
  for (const Missed& one : tally.missed) {
    missed.push_back({{"case", one.label}, {"wanted", one.wanted}, {"told", one.told}});
  }
  return {{"detected", rate_json(all.detected, all.faults)},
          {"preferred", rate_json(all.preferred, all.faults)},
          {"placed", rate_json(all.placed, all.faults)},
          {"alarms", rate_json(tally.alarms, tally.healthy)},
          {"undecided", tally.undecided},
          {"idle", tally.idle},
          {"left_out", tally.left_out},
          {"missed", std::move(missed)}};
}

}  // namespace reports
