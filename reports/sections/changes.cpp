// Against the newest earlier run of the same case: new, fixed, returned, changed, not run. A long list tells together what
// ran for the first time or did not run: neither says that something became better or worse.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

using harness::Outcome;

Outcome before(const CaseView& one) {
  return one.previous->judgement ? one.previous->judgement->outcome : Outcome::inconclusive;
}

std::string code_of(const harness::CaseRecord& record) {
  return record.judgement && !record.judgement->findings.empty()
             ? record.judgement->findings.front().code
             : "";
}

std::string change_of(const CaseView& one) {
  if (one.outcome() == Outcome::skip) return "not run";
  if (!one.previous) return "first time";
  const bool was_good = before(one) == Outcome::pass;
  const bool is_good = one.outcome() == Outcome::pass;
  if (was_good && is_good) return "";
  if (!was_good && is_good) return "fixed";
  if (was_good) return one.failed_earlier ? "returned" : "new";
  const bool same = before(one) == one.outcome() && code_of(*one.previous) == code_of(one.record);
  return same ? "still" : "changed";
}

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

Row row_of(const ReportView& view, const CaseView& one, const std::string& change) {
  Row row;
  row.change = change;
  row.before = one.previous ? harness::name_of(before(one)) : "–";
  row.now = harness::name_of(one.outcome());
  row.scenario = one.record.scenario;
  row.name = case_name(view, one);
  row.together = tells_by_scenario(view) && (change == "first time" || change == "not run");
  return row;
}

std::string changes_body(const ReportView& view) {
  std::vector<Row> rows;
  std::int64_t same = 0;
  for (const CaseView& one : view.cases) {
    const std::string change = change_of(one);
    if (change.empty()) {
      ++same;
    } else {
      rows.push_back(row_of(view, one, change));
    }
  }
  // A run of one case after a run of all: this list alone makes a report long.
  const bool many = tells_by_scenario(view) || view.not_run.size() > kMostCasesInFull;
  for (const NotRun& gone : view.not_run) {
    rows.push_back({"not run", "–", "–", gone.scenario, escape(gone.label), many});
  }
  Table table({"change", "case", "before", "now"});
  write_all(table, rows);
  std::string text = table.empty() ? "" : table.text();
  if (same > 0) text += counted(same, "case") + " passed before and passed again.\n\n";
  return text;
}

}  // namespace

Section changes() {
  return {"What changed since the run before", &changes_body, false};
}

}  // namespace reports::section
