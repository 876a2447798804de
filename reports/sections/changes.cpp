// Against the same case in earlier runs: new, fixed, returned, failing otherwise, not run. A long list tells together what ran for
// the first time or did not run: neither says that something became better or worse.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/change_kind.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

struct Row {
  std::string change, before, now;
  std::string scenario;
  std::string name;  // Markdown

  bool together = false;  // with others of its kind

  [[nodiscard]] std::array<std::string, 3> kind() const { return {change, before, now}; }
};

void write(Table& table, const Row& row, const std::string& name) {
  table.row({row.change, name, row.before, row.now});
}

// Rows of one kind: a row for a scenario that has more than a few, and one for all the rest where they are
// of many scenarios.
void write_together(Table& table, const std::vector<const Row*>& rows) {
  constexpr std::size_t kFew = 3;
  std::map<std::string, std::size_t> count;
  for (const Row* row : rows) ++count[row->scenario];
  std::vector<const Row*> rest;
  std::map<std::string, bool> written;
  for (const Row* row : rows) {
    const std::size_t cases = count[row->scenario];
    if (cases <= kFew) {
      rest.push_back(row);
    } else if (!std::exchange(written[row->scenario], true)) {
      write(table,
            *row,
            escape(row->scenario) + " (" + counted(static_cast<std::int64_t>(cases), "case") + ")");
    }
  }
  std::vector<std::string> scenarios;
  for (const Row* row : rest) {
    if (!std::exchange(written[row->scenario], true)) scenarios.push_back(escape(row->scenario));
  }
  if (scenarios.size() <= kFew) {
    for (const Row* row : rest) write(table, *row, row->name);
    return;
  }
  write(table,
        *rest.front(),
        counted(static_cast<std::int64_t>(rest.size()), "case") + " of " +
            counted(static_cast<std::int64_t>(scenarios.size()), "scenario") + ": " +
            nsa::join(scenarios));
}

int severity_of(const std::vector<const Row*>& kind) {
  const auto outcome = harness::outcome_from(kind.front()->now);
  return outcome ? severity(*outcome) : std::numeric_limits<int>::max();
}

// What stays alone first, then the rest by kind, the worst first.
void write_all(Table& table, const std::vector<Row>& rows) {
  std::vector<std::vector<const Row*>> kinds;
  std::map<std::array<std::string, 3>, std::size_t> known;
  for (const Row& row : rows) {
    if (!row.together) {
      write(table, row, row.name);
      continue;
    }
    const auto [at, is_new] = known.try_emplace(row.kind(), kinds.size());
    if (is_new) kinds.emplace_back();
    kinds[at->second].push_back(&row);
  }
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
    return severity_of(a) < severity_of(b);
  });
  for (const auto& kind : kinds) write_together(table, kind);
}

// "PASS", or what the case of this name was run with when it was not the same case.
std::string before_text(const CaseView& one) {
  if (!one.history.empty()) {
    const harness::Earlier& before = one.history.front();
    return std::string(harness::name_of(before.outcome)) + " (run " + escape(before.run) + ")";
  }
  if (!one.namesake) return "–";
  const auto profile = [](const std::string& name) { return name.empty() ? "none" : escape(name); };
  if (one.namesake->profile == one.record.profile) return "run with other values";
  return "profile was " + profile(one.namesake->profile) + ", is " + profile(one.record.profile);
}

Row row_of(const ReportView& view, const CaseView& one, Change change) {
  Row row;
  row.change = name_of(change);
  row.before = before_text(one);
  row.now = harness::name_of(one.outcome());
  row.scenario = one.record.scenario;
  row.name = case_name(view, one);
  row.together = tells_by_scenario(view) && (change == Change::first || change == Change::not_run);
  return row;
}

std::string table_of(const std::vector<Row>& rows) {
  Table table({"change", "case", "before", "now"});
  write_all(table, rows);
  return table.empty() ? "" : table.text();
}

// The first screen says so already.
bool is_all_first(const ReportView& view) {
  return std::all_of(view.cases.begin(), view.cases.end(), [](const CaseView& one) {
    return change_of(one) == Change::first && !one.namesake;
  });
}

// The comparison with the previous night says it, case by case.
bool is_told_by_night(const ReportView& view) {
  return std::any_of(view.nightly.begin(), view.nightly.end(), [](const NightBefore& one) {
    return one.earlier.previous.has_value();
  });
}

std::string changes_body(const ReportView& view) {
  if (is_all_first(view) || is_told_by_night(view)) return "";
  std::vector<Row> news;
  std::vector<Row> rest;  // ran for the first time, or did not run: neither better nor worse
  std::int64_t same = 0;
  for (const CaseView& one : view.cases) {
    const Change change = change_of(one);
    if (change == Change::same) {
      ++same;
      continue;
    }
    const bool folds = change == Change::first || change == Change::not_run;
    (folds ? rest : news).push_back(row_of(view, one, change));
  }
  std::string text = table_of(news);
  if (same > 0) text += counted(same, "case") + " passed before and passed again.\n\n";
  return text + folded("Ran for the first time, or did not run (" +
                           counted(static_cast<std::int64_t>(rest.size()), "case") + ")",
                       table_of(rest));
}

}  // namespace

Section changes() {
  return {"What changed", &changes_body, false};
}

}  // namespace reports::section
