#include "reports/sections/by_scenario.h"

#include <algorithm>
#include <map>

#include "harness/scenario/bisect.h"
#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/axes.h"
#include "reports/sections/wording.h"

namespace reports {
namespace {

using harness::Outcome;

std::int64_t count_of(const Cases& cases) {
  return static_cast<std::int64_t>(cases.size());
}

// Groups of equal key, in the order of their first cases.
template <typename Key>
std::vector<Cases> grouped_by(const Cases& cases, const Key& key_of) {
  std::vector<Cases> groups;
  std::map<decltype(key_of(*cases.front())), std::size_t> known;
  for (const CaseView* one : cases) {
    const auto [at, is_new] = known.try_emplace(key_of(*one), groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(one);
  }
  return groups;
}

// Which points of the scenario a part of its cases has: the axes on which it does not take every value.
std::string where(const ReportView& view, const Cases& part, const Cases& all) {
  const std::vector<Axis> every = axes_of(view, all);
  std::vector<std::string> parts;
  for (const Axis& axis : axes_of(view, part)) {
    const auto whole = std::find_if(
        every.begin(), every.end(), [&](const Axis& other) { return other.path == axis.path; });
    if (whole->values.size() == axis.values.size()) continue;
    parts.push_back(escape(axis.path) + " " + values_text(axis));
  }
  return nsa::join(parts, "; ");
}

}  // namespace

bool tells_by_scenario(const ReportView& view) {
  return view.cases.size() > kMostCasesInFull;
}

Telling telling_of(const CaseView& one) {
  const Outcome outcome = one.outcome();
  const auto& judgement = one.record.judgement;
  if (outcome == Outcome::skip) return Telling::not_run;
  if (!judgement && one.digest().device.empty())
    return Telling::not_run;  // no rank ever said hello
  if (outcome == Outcome::error && judgement->verdicts.empty()) return Telling::not_run;
  if (one.in_brief) return Telling::in_brief;
  if (outcome == Outcome::xfail) return Telling::together;
  if (outcome != Outcome::pass) return Telling::in_full;
  return leading_finding(one) != nullptr ? Telling::found : Telling::together;
}

bool is_trial(const CaseView& one) {
  return one.the_case && harness::is_trial(*one.the_case);
}

bool is_open(const CaseView& one) {
  return telling_of(one) == Telling::in_full && !is_trial(one);
}

bool told_at_once(const ReportView& view) {
  if (view.cases.size() != 1) return false;
  const CaseView& one = view.cases.front();
  return one.outcome() == Outcome::pass && one.nothing_planted() && one.record.judgements < 2;
}

Cases all_cases(const ReportView& view) {
  Cases all;
  for (const CaseView& one : view.cases) all.push_back(&one);
  return all;
}

Cases cases_told(const ReportView& view, Telling telling) {
  Cases told = all_cases(view);
  std::erase_if(told, [&](const CaseView* one) { return telling_of(*one) != telling; });
  return told;
}

Cases told_in_full(const ReportView& view) {
  return tells_by_scenario(view) ? cases_told(view, Telling::in_full) : all_cases(view);
}

std::vector<Cases> told_together(const ReportView& view) {
  if (!tells_by_scenario(view)) return {};
  return grouped_by(cases_told(view, Telling::together), [](const CaseView& one) {
    return std::pair(one.record.scenario, one.outcome());
  });
}

std::string told(const ReportView& view,
                 const std::string& folded_title,
                 OfCase of_case,
                 OfGroup of_group) {
  std::string open;
  std::string closed;
  for (const CaseView* one : told_in_full(view)) {
    (is_open(*one) ? open : closed) += of_case(view, *one);
  }
  for (const Cases& group : told_together(view)) closed += of_group(view, group);
  return open + folded(folded_title, closed);
}

std::vector<Cases> by_scenario(const Cases& cases) {
  return grouped_by(cases, [](const CaseView& one) { return one.record.scenario; });
}

std::string group_name(const ReportView& view, const Cases& group) {
  const CaseView& first = *group.front();
  if (group.size() == 1) return case_name(view, first);
  Cases all = all_cases(view);
  std::erase_if(all,
                [&](const CaseView* one) { return one->record.scenario != first.record.scenario; });
  const std::string name = escape(first.record.scenario);
  if (group.size() == all.size()) return name + " (" + counted(count_of(group), "case") + ")";
  // Of what passed, that it is not all of them is enough: what did not is told with its points.
  const bool passed = first.outcome() == Outcome::pass;
  const std::string points = passed ? "" : where(view, group, all);
  return name + " (" + std::to_string(group.size()) + " of " + counted(count_of(all), "case") +
         (points.empty() ? "" : ": " + points) + ")";
}

std::string titled(const ReportView& view, const Cases& group) {
  const Outcome outcome = group.front()->outcome();
  const std::string name = group_name(view, group);
  return outcome == Outcome::pass ? name : name + ", " + harness::name_of(outcome);
}

std::string scenarios_text(const Cases& cases, std::size_t most) {
  const std::vector<Cases> groups = by_scenario(cases);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(groups.size(), most); ++i) {
    const std::string name = escape(groups[i].front()->record.scenario);
    const bool one = groups[i].size() == 1;
    names.push_back(one ? name : name + " (" + counted(count_of(groups[i]), "case") + ")");
  }
  const std::string text = nsa::join(names);
  return groups.size() > most ? text + " and " + std::to_string(groups.size() - most) + " more"
                              : text;
}

std::string count_text(const Cases& cases) {
  return counted(count_of(cases), "case") + " of " +
         counted(static_cast<std::int64_t>(by_scenario(cases).size()), "scenario");
}

}  // namespace reports
