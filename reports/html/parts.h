// The parts of the page that are drawn or linked otherwise than in the Markdown report: the same values of the view,
// in another form. Each gives HTML, "" where there is nothing to show.
#pragma once

#include <string>
#include <vector>

#include "reports/html/elements.h"
#include "reports/sections/by_scenario.h"
#include "reports/view.h"

namespace reports::html {

// The causes of the first screen (reports::failures), each with links to its cases and to what the sections say of
// the first one.
[[nodiscard]] std::string causes(const ReportView& view, const Anchors& anchors);

// Links to what the sections say of a case.
[[nodiscard]] std::string case_links(const ReportView& view,
                                     const CaseView& one,
                                     const Anchors& anchors);

// A table for each scenario, those with a failure first and open; a row a case.
[[nodiscard]] std::string case_tables(const ReportView& view);

// Of each case that failed: its links, errors by stage and layer, time and memory by phase, and what each process did
// when.
[[nodiscard]] std::string failed_in_full(const ReportView& view, const Anchors& anchors);

// What timed cells took, night by night.
struct Curve {
  std::string label;
  std::vector<std::string> nights;  // when each began
  std::vector<std::string> verdicts;
  std::vector<double> step_ms;
  std::vector<double> control_ms;
};
// Of the cells that the view measured. Throws: nsa::Error from the store.
[[nodiscard]] std::vector<Curve> curves_of(const harness::Store& store, const ReportView& view);
[[nodiscard]] std::string curves(const std::vector<Curve>& all);

// Time and memory by phase: a row a scenario.
[[nodiscard]] std::string costs(const ReportView& view);
// The same of one case, a row a process. For failed_in_full.
[[nodiscard]] std::string costs_of(const CaseView& one);

// What each process of a case did when.
[[nodiscard]] std::string timeline(const Timeline& timeline);

// What came nearest to its limit, of all cases.
[[nodiscard]] std::string nearest_to_limits(const ReportView& view);
// The errors of one case against their limits, and the layers that its findings name.
[[nodiscard]] std::string errors_of(const CaseView& one);

// The id of a case on the page: of its card where it failed, else of its row.
[[nodiscard]] std::string case_id(const CaseView& one);
// Cases with a card.
[[nodiscard]] Cases with_card(const ReportView& view);

}  // namespace reports::html
