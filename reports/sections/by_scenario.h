// A long report tells cases together, so that a person can read it: which of them, and what a group of them is called.
// A short one tells every case on its own: nothing is told together there, and everything in full.
#pragma once

#include <string>
#include <vector>

#include "reports/view.h"

namespace reports {

using Cases = std::vector<const CaseView*>;  // in the order of the report; a group is never empty

// Reports of more cases are long ones: their tables of every case no longer fit a few screens.
inline constexpr std::size_t kMostCasesInFull = 12;
[[nodiscard]] bool tells_by_scenario(const ReportView& view);

// How a long report tells a case.
enum class Telling {
  in_full,   // it did not pass, and is not known to fail
  together,  // it passed or failed as is known: together with the others of its scenario
  in_brief,  // one of many that were not decided: its rows tell it, with the reason
  found,     // it passed because what was expected to be found was found: the finding tells it
  not_run    // skipped, refused, or never begun: the reason tells it
};
[[nodiscard]] Telling telling_of(const CaseView& one);

// A step of a search: its answer is what is told.
[[nodiscard]] bool is_trial(const CaseView& one);
// What failed is read at once; all else is there for whoever opens it.
[[nodiscard]] bool is_open(const CaseView& one);
// One case that passed: the first screen has all that its checks said.
[[nodiscard]] bool told_at_once(const ReportView& view);

// What sections write about: each of these cases on its own, then each of these groups as one.
[[nodiscard]] Cases told_in_full(const ReportView& view);                // a short report: all
[[nodiscard]] std::vector<Cases> told_together(const ReportView& view);  // a short report: none
// Of every case that is told in this way, in a short report as well.
[[nodiscard]] Cases cases_told(const ReportView& view, Telling telling);

// What a section says case by case: of what failed openly, of everything else under a title that opens it. `of_case` writes
// about one case, `of_group` about cases of one scenario that passed or are known to fail.
using OfCase = std::string (*)(const ReportView& view, const CaseView& one);
using OfGroup = std::string (*)(const ReportView& view, const Cases& group);
[[nodiscard]] std::string told(const ReportView& view,
                               const std::string& folded_title,
                               OfCase of_case,
                               OfGroup of_group);

// One group a scenario, in the order of their first cases.
[[nodiscard]] std::vector<Cases> by_scenario(const Cases& cases);
[[nodiscard]] Cases all_cases(const ReportView& view);

// What cases of one scenario are called: the case itself where it is one, "causality (6 cases)" where they are all of the
// scenario's in this report, else "long_rows (2 of 5 cases: training.seq_len 46341, 65536)", without the points where they
// passed.
[[nodiscard]] std::string group_name(const ReportView& view, const Cases& group);

// The same as a heading, which says so where the group did not pass: "loader (6 cases), XFAIL".
[[nodiscard]] std::string titled(const ReportView& view, const Cases& group);

// "ddp_static_graph (24 cases), loader, soak and 3 more": at most `most` scenarios by name.
[[nodiscard]] std::string scenarios_text(const Cases& cases, std::size_t most);
// "68 cases of 40 scenarios"
[[nodiscard]] std::string count_text(const Cases& cases);

}  // namespace reports
