#include "reports/comparison.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "harness/store/identity.h"
#include "harness/store/bisection.h"
#include "harness/store/experiments.h"
#include "nsa/base/text.h"
#include "reports/sections/wording.h"

namespace reports {
namespace {

using harness::CaseRecord;
using harness::Outcome;

// One side of the comparison.
struct Cell {
  std::string key;
  std::string scenario;
  std::string label;
  std::string profile;
  Outcome outcome = Outcome::inconclusive;
  std::string code;
  std::string reason;
  const harness::Digest* digest = nullptr;
  bool planted = false;  // what a fault sets off may take one operator more or less

  [[nodiscard]] bool is_good() const {
    return outcome == Outcome::pass || outcome == Outcome::xfail;
  }
  [[nodiscard]] bool is_open() const { return outcome == Outcome::inconclusive; }
  [[nodiscard]] bool is_skipped() const { return outcome == Outcome::skip; }
  [[nodiscard]] bool failed() const { return !is_good() && !is_open() && !is_skipped(); }
  [[nodiscard]] auto name() const { return std::tuple(scenario, label, profile); }
  [[nodiscard]] std::string text() const {
    return harness::name_of(outcome) + (code.empty() || is_good() ? "" : " " + code);
  }
};

Cell cell_of(const CaseRecord& record) {
  Cell cell;
  cell.key = record.history_id;
  cell.scenario = record.scenario;
  cell.label = record.label;
  cell.profile = record.profile;
  cell.outcome = harness::outcome_of(record);
  cell.digest = &record.digest;
  cell.planted = harness::plants_fault(record.case_json);
  cell.reason = !record.skip_reason.empty() ? record.skip_reason
                : record.judgement          ? record.judgement->reason
                                            : "never judged";
  if (record.judgement && !record.judgement->findings.empty()) {
    cell.code = record.judgement->findings.front().code;
  }
  return cell;
}

Cell cell_of(const harness::Bisection& bisection) {
  Cell cell;
  cell.key = "bisection of " + bisection.label;
  cell.scenario = bisection.records.front()->scenario;
  cell.label = cell.key;
  cell.profile = bisection.records.front()->profile;
  cell.outcome = bisection.outcome().value_or(Outcome::inconclusive);
  cell.reason = bisection.progress.conclusion;
  return cell;
}

// The launches of one cell are one, with the worst of their outcomes.
void add_cell(std::vector<Cell>& cells, const CaseRecord& record) {
  const auto known = std::find_if(cells.begin(), cells.end(), [&](const Cell& one) {
    return !one.key.empty() && one.key == record.history_id && one.scenario == record.scenario;
  });
  const Cell cell = cell_of(record);
  if (known == cells.end()) {
    cells.push_back(cell);
  } else if (severity(cell.outcome) < severity(known->outcome)) {
    const std::string label = known->label;
    *known = cell;
    known->label = label;
  }
}

// The trials of a bisection are steps of a search: only the search as a whole is a cell.
std::vector<Cell> cells_of(const std::vector<CaseRecord>& records) {
  const std::vector<harness::Bisection> bisections = harness::bisections_of(records);
  std::set<const CaseRecord*> trials;
  for (const auto& one : bisections) trials.insert(one.records.begin(), one.records.end());
  std::vector<Cell> cells;
  for (const CaseRecord& record : records) {
    if (!trials.contains(&record) && !harness::is_experiment(record)) add_cell(cells, record);
  }
  for (const auto& one : bisections) cells.push_back(cell_of(one));
  return cells;
}

CellChange change_of_cell(const Cell& before, const Cell& now) {
  if (now.is_skipped()) return before.is_skipped() ? CellChange::same : CellChange::not_run;
  if (before.is_skipped()) return now.failed() ? CellChange::newly_failing : CellChange::fresh;
  if (now.is_open()) return before.is_open() ? CellChange::same : CellChange::not_decided;
  if (now.is_good()) return before.is_good() ? CellChange::same : CellChange::newly_passing;
  if (!before.failed()) return CellChange::newly_failing;
  const bool alike = before.outcome == now.outcome && before.code == now.code;
  return alike ? CellChange::still_failing : CellChange::fails_otherwise;
}

void compare_values(const Cell& before, const Cell& now, Comparison& result) {
  if (before.digest == nullptr || now.digest == nullptr) return;
  if (before.outcome != Outcome::pass || now.outcome != Outcome::pass || now.planted) return;
  const std::map<std::string, double> earlier(before.digest->metrics.begin(),
                                              before.digest->metrics.end());
  const auto bytes = earlier.find("collective_bytes");
  const bool has_collectives = bytes != earlier.end() && bytes->second > 0;
  std::size_t compared = 0;
  for (const auto& [metric, value] : now.digest->metrics) {
    const auto at = earlier.find(metric);
    if (at == earlier.end() || !is_exact(metric, has_collectives)) continue;
    ++compared;
    if (at->second != value) result.values.push_back({now.label, metric, at->second, value});
  }
  result.values_compared += compared;
  if (compared > 0) ++result.cells_with_values;
}

const Cell* namesake_of(const Cell& cell, const std::vector<Cell>& others) {
  const auto at = std::find_if(
      others.begin(), others.end(), [&](const Cell& one) { return one.name() == cell.name(); });
  return at == others.end() ? nullptr : &*at;
}

using Keyed = std::map<std::string, const Cell*>;

Keyed keyed(const std::vector<Cell>& cells) {
  Keyed by_key;
  for (const Cell& cell : cells) by_key[cell.key] = &cell;
  return by_key;
}

void add(
    Comparison& result, CellChange change, const Cell& cell, const Cell* before, bool is_here) {
  result.cells.push_back({change,
                          cell.scenario,
                          cell.label,
                          before == nullptr ? "–" : before->text(),
                          is_here ? cell.text() : "–",
                          is_here ? cell.reason : ""});
}

// Cells of which the other side has none of the same content.
void add_unmatched(const std::vector<Cell>& before,
                   const std::vector<Cell>& now,
                   Comparison& result) {
  const Keyed earlier = keyed(before);
  const Keyed later = keyed(now);
  for (const Cell& cell : now) {
    if (earlier.contains(cell.key)) continue;
    const Cell* other = namesake_of(cell, before);
    const bool replaced = other != nullptr && !later.contains(other->key);
    if (cell.failed()) {
      add(result, CellChange::newly_failing, cell, nullptr, true);
    } else if (replaced && !cell.is_skipped()) {
      add(result, CellChange::other_content, cell, other, true);
    } else if (!cell.is_skipped()) {
      add(result, CellChange::fresh, cell, nullptr, true);
    }
  }
  for (const Cell& cell : before) {
    if (later.contains(cell.key) || cell.is_skipped()) continue;
    const Cell* other = namesake_of(cell, now);
    const bool replaced = other != nullptr && !earlier.contains(other->key) && !other->is_skipped();
    if (!replaced) add(result, CellChange::gone, cell, &cell, false);
  }
}

std::string value_in(const harness::Pairs& pairs, const std::string& name) {
  for (const auto& [known, value] : pairs) {
    if (known == name) return value;
  }
  return "";
}

std::string difference(const std::string& name, const std::string& before, const std::string& now) {
  const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
  return name + ": " + shown(before) + ", now " + shown(now);
}

std::vector<std::string> differences(const harness::Pairs& before,
                                     const harness::Pairs& now,
                                     const auto& wanted) {
  std::vector<std::string> names;
  for (const harness::Pairs* pairs : {&before, &now}) {
    for (const auto& [name, value] : *pairs) {
      const bool known = std::find(names.begin(), names.end(), name) != names.end();
      if (wanted(name) && !known) names.push_back(name);
    }
  }
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const std::string was = value_in(before, name);
    const std::string is = value_in(now, name);
    if (was != is) found.push_back(difference(name, was, is));
  }
  return found;
}

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::string commit_text(const harness::Provenance& provenance) {
  return provenance.commit.empty() ? ""
                                   : provenance.commit + (provenance.dirty ? " with changes" : "");
}

}  // namespace

const char* name_of(CellChange change) {
  switch (change) {
    case CellChange::newly_failing: return "newly failing";
    case CellChange::fails_otherwise: return "fails otherwise";
    case CellChange::still_failing: return "still failing";
    case CellChange::newly_passing: return "newly passing";
    case CellChange::not_decided: return "not decided";
    case CellChange::not_run: return "not run";
    case CellChange::gone: return "gone";
    case CellChange::other_content: return "run with other values";
    case CellChange::fresh: return "new";
    case CellChange::same: return "same";
  }
  return "";
}

bool is_hardware(const std::string& fact) {
  return fact == "cpu" || fact == "cores" || fact.starts_with("gpu");
}

std::string hardware_text(const harness::RunRecord& run) {
  std::vector<std::string> facts;
  for (const auto& [name, value] : run.provenance.machine) {
    if (is_hardware(name)) facts.push_back(name + " " + value);
  }
  return nsa::join(facts);
}

bool is_exact(const std::string& metric, bool has_collectives) {
  constexpr std::array<std::string_view, 5> kCounted = {
      "collective_bytes", "collectives", "host_syncs", "operators", "held_bytes"};
  if (std::find(kCounted.begin(), kCounted.end(), metric) != kCounted.end()) return true;
  // A process group's own thread lets go of a collective's tensors when it comes to it: with NCCL after several quick steps.
  return !has_collectives && (metric == "tensor_peak_bytes" || metric.starts_with("peak_bytes."));
}

std::size_t Comparison::count(CellChange change) const {
  return static_cast<std::size_t>(std::count_if(
      cells.begin(), cells.end(), [&](const CellDifference& one) { return one.change == change; }));
}

bool Comparison::is_calm() const {
  const bool worse = std::any_of(cells.begin(), cells.end(), [](const CellDifference& one) {
    return one.change != CellChange::newly_passing && one.change != CellChange::fresh &&
           one.change != CellChange::other_content;
  });
  return !worse && values.empty() && slower_cells(times).empty();
}

Comparison compare_cells(const std::vector<CaseRecord>& before_records,
                         const std::vector<CaseRecord>& now_records) {
  const std::vector<Cell> before = cells_of(before_records);
  const std::vector<Cell> now = cells_of(now_records);
  const Keyed earlier = keyed(before);
  Comparison result;
  for (const Cell& cell : now) {
    const auto at = earlier.find(cell.key);
    if (at == earlier.end()) continue;
    const CellChange change = change_of_cell(*at->second, cell);
    if (!at->second->is_skipped() && !cell.is_skipped()) ++result.in_both;
    if (change == CellChange::same) {
      ++result.same;
    } else {
      add(result, change, cell, at->second, true);
    }
    compare_values(*at->second, cell, result);
  }
  add_unmatched(before, now, result);
  std::stable_sort(
      result.cells.begin(),
      result.cells.end(),
      [](const CellDifference& a, const CellDifference& b) { return a.change < b.change; });
  return result;
}

Comparison compare_runs(const harness::Store& store,
                        const harness::RunRecord& before_run,
                        const std::vector<CaseRecord>& before,
                        const harness::RunRecord& now_run,
                        const std::vector<CaseRecord>& now) {
  Comparison result = compare_cells(before, now);
  result.times = judge_times(store, before_run, now_run, now);
  const harness::Provenance& was = before_run.provenance;
  const harness::Provenance& is = now_run.provenance;
  const std::vector<std::string> other = differences(was.machine, is.machine, is_hardware);
  if (!other.empty() && result.values_compared > 0) {
    result.not_comparable =
        "NOT COMPARABLE, they are of another machine: " + nsa::join(other, "; ");
    result.values.clear();
    result.values_compared = 0;
    result.cells_with_values = 0;
  }
  if (commit_text(was) != commit_text(is)) {
    result.around.push_back(difference("commit", commit_text(was), commit_text(is)));
  }
  append(result.around, other);
  append(result.around, differences(was.machine, is.machine, [](const std::string& name) {
           return !is_hardware(name) && name != "memory_bytes";
         }));
  append(result.around,
         differences(was.environment, is.environment, [](const std::string&) { return true; }));
  return result;
}

}  // namespace reports
