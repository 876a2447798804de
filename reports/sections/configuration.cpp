// What was run: model, training and parallel configuration of each case, its route, and what was planted. A long report
// tells what the cases of a scenario have in common, and the axes on which they differ.
#include <algorithm>
#include <map>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/axes.h"
#include "reports/sections/configuration_rows.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

std::string known_text(const harness::KnownFailure& known) {
  std::vector<std::string> point;
  for (const auto& [path, value] : known.when) point.push_back(escape(path + "=" + value));
  return std::string(harness::name_of(known.outcome)) +
         (known.code.empty() ? "" : " " + escape(known.code)) + " where " + nsa::join(point) +
         ", until " + escape(known.until) + ": " + escape(known.because);
}

std::string about_text(const CaseView& one) {
  const std::string& about = one.the_case->scenario.about;
  return about.empty() ? "" : escape(about) + "\n\n";
}

std::string configuration_of_case(const ReportView& view, const CaseView& one) {
  const std::string title = "### " + case_name(view, one) + "\n\n";
  if (!one.the_case) {
    return title + "The case's description cannot be read: " + escape(one.unreadable) + ".\n\n";
  }
  Table table({"", ""});
  for (const ConfigurationRow& row : configuration_rows(one)) table.row({row.name, row.text});
  const auto& known = one.the_case->scenario.known;
  if (known) table.row({"known failure", known_text(*known)});
  table.row({"case", escape(one.record.case_id)});
  return title + about_text(one) + table.text();
}

std::string varies_text(const ReportView& view, const Cases& cases) {
  std::vector<std::string> axes;
  for (const Axis& axis : axes_of(view, cases)) {
    if (axis.values.size() > 1) axes.push_back(escape(axis.path) + ": " + values_text(axis));
  }
  return nsa::join(axes, "; ");
}

std::vector<std::string> known_texts(const Cases& cases) {
  std::vector<std::string> texts;
  for (const CaseView* one : cases) {
    if (!one->the_case->scenario.known) continue;
    const std::string text = known_text(*one->the_case->scenario.known);
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  return texts;
}

std::string of_scenario(const ReportView& view, const Cases& group) {
  Cases readable = group;
  std::erase_if(readable, [](const CaseView* one) { return !one->the_case; });
  const auto lost = static_cast<std::int64_t>(group.size() - readable.size());
  std::string text = "### " + group_name(view, group) + "\n\n";
  if (lost > 0) text += "The description of " + counted(lost, "case") + " cannot be read.\n\n";
  if (readable.empty()) return text;
  Table table({"", ""});
  for (const ConfigurationRow& row : common_rows(readable)) table.row({row.name, row.text});
  const std::string varies = varies_text(view, readable);
  if (!varies.empty()) table.row({"varies", varies});
  for (const std::string& known : known_texts(readable)) table.row({"known failure", known});
  return text + about_text(*readable.front()) + table.text();
}

// A row for a case whose finding tells the most of it: there are as many of them as faults that can be planted.
void write_found(Table& table, const ReportView& view, const CaseView& one) {
  std::vector<std::string> cells = {case_name(view, one), escape(one.the_case->scenario.about)};
  const std::vector<ConfigurationRow> rows = configuration_rows(one);
  for (const char* name : {"planted fault", "model", "training", "parallel"}) {
    const auto row = std::find_if(
        rows.begin(), rows.end(), [&](const ConfigurationRow& at) { return at.name == name; });
    cells.push_back(row == rows.end() ? "–" : row->text);
  }
  table.row(std::move(cells));
}

std::string not_run_text(const ReportView& view) {
  const Cases not_run = cases_told(view, Telling::not_run);
  std::map<int, Cases> of_outcome;  // the worst first
  for (const CaseView* one : not_run) of_outcome[severity(one->outcome())].push_back(one);
  std::string text;
  for (const auto& [severity, cases] : of_outcome) {
    text += "- " + outcome_text(cases.front()->outcome()) +
            " before anything ran: " + scenarios_text(cases, cases.size()) + "\n";
  }
  return text.empty() ? "" : text + "\n";
}

std::string by_scenarios(const ReportView& view) {
  Cases ran = all_cases(view);
  std::erase_if(ran, [](const CaseView* one) { return telling_of(*one) == Telling::not_run; });
  std::string text;
  Table found({"found what it expects", "about", "planted fault", "model", "training", "parallel"});
  for (const Cases& group : by_scenario(ran)) {
    const CaseView& first = *group.front();
    const bool alone = group.size() == 1;
    if (alone && first.the_case && telling_of(first) == Telling::found) {
      write_found(found, view, first);
    } else {
      text += alone ? configuration_of_case(view, first) : of_scenario(view, group);
    }
  }
  return text + (found.empty() ? "" : found.text()) + not_run_text(view);
}

std::string configuration_body(const ReportView& view) {
  if (tells_by_scenario(view)) return folded("Configuration of every scenario", by_scenarios(view));
  std::string text;
  std::string passed;
  for (const CaseView& one : view.cases) {
    (is_open(one) ? text : passed) += configuration_of_case(view, one);
  }
  return text + folded("Configuration of what passed or was skipped", passed);
}

}  // namespace

Section configuration() {
  return {"Configuration", &configuration_body, false};
}

}  // namespace reports::section
