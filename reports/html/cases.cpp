#include <algorithm>
#include <map>
#include <set>

#include "nsa/base/text.h"
#include "reports/html/markup.h"
#include "reports/html/parts.h"
#include "reports/sections/again.h"
#include "reports/sections/axes.h"
#include "reports/sections/change_kind.h"
#include "reports/sections/failures.h"

namespace reports::html {
namespace {

using harness::Outcome;

constexpr std::size_t kMostCards = 60;  // of more failures nobody reads all drawings

bool has_card(const std::set<const CaseView*>& carded, const CaseView& one) {
  return carded.contains(&one);
}

std::string tally_of(const Cases& cases) {
  std::map<int, std::pair<Outcome, std::size_t>> counts;
  for (const CaseView* one : cases) {
    auto& entry = counts[severity(one->outcome())];
    entry.first = one->outcome();
    ++entry.second;
  }
  std::string out;
  for (const auto& [severity, entry] : counts) {
    out += " " + word(harness::name_of(entry.first)) + " " + std::to_string(entry.second);
  }
  return out;
}

bool any_failed(const Cases& cases) {
  return std::any_of(
      cases.begin(), cases.end(), [](const CaseView* one) { return is_failure(one->outcome()); });
}

std::string reason_of(const CaseView& one) {
  const std::string reason =
      one.outcome() == Outcome::pass ? shortened(one.reason()) : one.reason();
  return text(reason);
}

std::string row_of(const ReportView& view, const CaseView& one, bool carded) {
  const std::string point = plain(spans_of(point_text(view, one)));
  const std::string name = point == "–" ? one.record.label : point;
  const std::string named = carded ? link(case_id(one), name) : text(name);
  return "<tr" + (carded ? std::string() : " id=\"" + case_id(one) + "\"") + "><td>" +
         word(harness::name_of(one.outcome())) + "</td><td>" + named + "</td><td class=\"n\">" +
         text(nsa::to_text(one.record.seconds, 4)) + "</td><td>" + name_of(change_of(one)) +
         "</td><td>" + reason_of(one) + "</td></tr>\n";
}

std::string table_of_cases(const ReportView& view,
                           const Cases& cases,
                           const std::set<const CaseView*>& carded) {
  std::string rows;
  for (const CaseView* one : cases) rows += row_of(view, *one, has_card(carded, *one));
  return "<div class=\"wide\" tabindex=\"0\"><table class=\"cases\"><thead><tr><th "
         "scope=\"col\">outcome</th>"
         "<th scope=\"col\">case</th><th scope=\"col\">seconds</th><th scope=\"col\">change</th>"
         "<th scope=\"col\">reason</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

std::string folder_of(const CaseView& one) {
  if (one.record.folder.empty()) return "";
  return "<p>Recorded in <code>" + text(one.run.folder + "/" + one.record.folder) + "</code>" +
         (one.run.pruned_ms == 0 ? "" : ", which was pruned") + ".</p>\n";
}

std::string card(const ReportView& view, const CaseView& one, const Anchors& anchors) {
  std::string body = case_links(view, one, anchors) + errors_of(one) + costs_of(one);
  const auto recorded = view.request.timelines.find(one.record.id);
  if (recorded != view.request.timelines.end()) body += timeline(recorded->second);
  return "<article class=\"card\" id=\"" + case_id(one) + "\"><h3>" +
         word(harness::name_of(one.outcome())) + " " + spans(spans_of(case_name(view, one))) +
         "</h3>\n<p>" + text(one.reason()) + "</p>\n" + folder_of(one) + body +
         folded("Run it again",
                "<pre tabindex=\"0\"><code>" + text(case_again(one)) + "</code></pre>\n") +
         "</article>\n";
}

}  // namespace

std::string case_id(const CaseView& one) {
  return "case_" + std::to_string(one.run.id) + "_" + std::to_string(one.record.position);
}

Cases with_card(const ReportView& view) {
  Cases failed = failed_cases(view);
  if (failed.size() > kMostCards) failed.resize(kMostCards);
  return failed;
}

std::string case_tables(const ReportView& view) {
  const Cases cards = with_card(view);
  const std::set<const CaseView*> carded(cards.begin(), cards.end());
  std::vector<Cases> groups = by_scenario(all_cases(view));
  std::stable_partition(groups.begin(), groups.end(), &any_failed);
  std::string out;
  for (const Cases& cases : groups) {
    out += folded("<span class=\"name\">" + text(cases.front()->record.scenario) + "</span>" +
                      tally_of(cases),
                  table_of_cases(view, cases, carded),
                  any_failed(cases));
  }
  return out;
}

std::string failed_in_full(const ReportView& view, const Anchors& anchors) {
  std::string out;
  for (const CaseView* one : with_card(view)) out += card(view, *one, anchors);
  return out;
}

}  // namespace reports::html
