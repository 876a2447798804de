#include "reports/sections/wording.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "nsa/base/text.h"
#include "reports/markdown.h"

namespace reports {

using harness::Outcome;

namespace {

std::string tally_text(const std::vector<Outcome>& outcomes) {
  std::map<int, std::pair<Outcome, std::int64_t>> counts;  // by severity
  for (const Outcome outcome : outcomes) {
    auto& entry = counts[severity(outcome)];
    entry.first = outcome;
    ++entry.second;
  }
  std::vector<std::string> parts;
  for (const auto& [severity, entry] : counts) {
    parts.push_back(std::to_string(entry.second) + " " + harness::name_of(entry.first));
  }
  return nsa::join(parts);
}

}  // namespace

std::string outcome_text(harness::Outcome outcome) {
  return std::string("**") + harness::name_of(outcome) + "**";
}

int severity(harness::Outcome outcome) {
  constexpr std::array kWorstFirst = {Outcome::fail,
                                      Outcome::hang,
                                      Outcome::slow,
                                      Outcome::crash,
                                      Outcome::oom,
                                      Outcome::xpass,
                                      Outcome::error,
                                      Outcome::inconclusive,
                                      Outcome::xfail,
                                      Outcome::skip,
                                      Outcome::pass};
  const auto at = std::find(kWorstFirst.begin(), kWorstFirst.end(), outcome);
  return static_cast<int>(at - kWorstFirst.begin());
}

std::string finding_title(const harness::Finding& finding) {
  return escape(harness::title_of(finding.code, finding.site));
}

const harness::Finding* leading_finding(const CaseView& view) {
  if (!view.record.judgement || view.record.judgement->findings.empty()) return nullptr;
  const harness::Finding& first = view.record.judgement->findings.front();
  return first.role == harness::Role::teardown ? nullptr : &first;
}

std::string why(const ReportView& view) {
  const auto& runs = view.request.runs;
  const bool whole = std::all_of(
      runs.begin(), runs.end(), [](const harness::RunRecord& run) { return run.complete; });
  if (!whole) {
    return std::string(runs.size() == 1 ? "the run" : "a run") +
           " is incomplete, and what it did not do is not known to be good";
  }
  const auto count = [&](const auto& wanted) {
    return std::to_string(std::count_if(view.outcomes.begin(), view.outcomes.end(), wanted));
  };
  const std::string all = counted(static_cast<std::int64_t>(view.outcomes.size()), "case");
  const bool searched = std::any_of(view.bisections.begin(),
                                    view.bisections.end(),
                                    [](const auto& one) { return one.outcome().has_value(); });
  if (view.decision == "GO" && searched) return "what a bisection was expected to find was found";
  if (view.decision == "GO") {
    return view.cases.size() == 1 ? case_name(view, view.cases.front()) + " passed"
                                  : "all " + all + " passed";
  }
  if (view.decision == kEndedByItself || view.decision == kInconclusive) {
    const auto open = std::find_if(view.cases.begin(), view.cases.end(), [](const CaseView& one) {
      return one.outcome() != Outcome::pass;
    });
    const CaseView& told = open != view.cases.end() ? *open : view.cases.front();
    const auto& judgement = told.record.judgement;
    return case_name(view, told) + ": " +
           escape(judgement ? judgement->reason : told.record.skip_reason);
  }
  const auto undecided = [](Outcome outcome) {
    return outcome != Outcome::pass && severity(outcome) > severity(Outcome::error);
  };
  const std::size_t unasked = view.unasked;
  const std::string unasked_text =
      std::to_string(unasked) + " of " + all + (unasked == 1 ? " was" : " were") +
      " watched less closely than " + (unasked == 1 ? "its" : "their") + " checks need";
  if (view.decision == "CONDITIONAL GO" && count(undecided) == "0") {
    return "nothing failed, but " + unasked_text;
  }
  if (view.decision == "CONDITIONAL GO" && unasked > 0) {
    return "nothing failed, but " + count(undecided) + " of " + all + " were not decided, and " +
           unasked_text;
  }
  if (view.decision == "CONDITIONAL GO") {
    return "nothing failed, but " + count(undecided) + " of " + all + " were not decided";
  }
  const std::string failed =
      count([](Outcome outcome) { return severity(outcome) <= severity(Outcome::error); });
  for (const NightBefore& one : view.nightly) {
    const std::string slower = slower_cells(one.comparison.times);
    if (failed == "0" && !slower.empty()) return slower + " than in the reference nights";
  }
  if (failed == "0") return "no case passed";
  const bool error = std::count(view.outcomes.begin(), view.outcomes.end(), Outcome::error) > 0;
  return failed + " of " + all + (error ? " failed or could not be run" : " failed");
}

std::string tally(const std::vector<CaseView>& cases) {
  std::vector<Outcome> outcomes;
  for (const CaseView& one : cases) outcomes.push_back(one.outcome());
  return tally_text(outcomes);
}

std::string tally(const std::vector<harness::CaseRecord>& cases) {
  std::vector<Outcome> outcomes;
  for (const harness::CaseRecord& record : cases) outcomes.push_back(harness::outcome_of(record));
  return tally_text(outcomes);
}

std::string shown_number(double value, int digits) {
  constexpr double kFewest = 1e3;
  constexpr double kMost = 1e15;  // whole numbers below are exact
  const double size = std::abs(value);
  if (size >= kFewest && size < kMost && value == std::floor(value)) {
    return grouped(std::llround(value));
  }
  return nsa::to_text(value, digits);
}

std::string shortened(const std::string& text) {
  constexpr std::size_t kLongest = 60;  // of a cell beside a label
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest;
  const auto inside = [&](std::size_t at) {  // of a character of several bytes
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  while (end > 0 && inside(end)) --end;
  return text.substr(0, end) + " ...";
}

std::string case_name(const ReportView& view, const CaseView& one) {
  const std::string label = escape(one.record.label);
  return view.request.runs.size() > 1 ? label + " (run " + escape(one.run.name) + ")" : label;
}

}  // namespace reports
