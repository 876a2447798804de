#include <array>
#include <cmath>
#include <map>

#include "nsa/base/text.h"
#include "reports/comparison.h"
#include "reports/markdown.h"
#include "reports/paired_times.h"

namespace reports {
namespace {

constexpr std::size_t kMostRows = 40;    // of one kind, one by one
constexpr std::size_t kFewTogether = 3;  // up to so many cells of one reason are told one by one
constexpr std::size_t kMostNames = 6;

bool told_together(CellChange change) {
  return change == CellChange::not_run || change == CellChange::gone ||
         change == CellChange::fresh || change == CellChange::other_content;
}

std::string names_text(const std::vector<const CellDifference*>& cells) {
  std::vector<std::string> order;
  std::map<std::string, std::int64_t> counts;
  for (const CellDifference* cell : cells) {
    if (++counts[cell->scenario] == 1) order.push_back(cell->scenario);
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(order.size(), kMostNames); ++i) {
    const std::int64_t count = counts[order[i]];
    names.push_back(escape(order[i]) + (count == 1 ? "" : " (" + counted(count, "case") + ")"));
  }
  const std::string more = order.size() > kMostNames
                               ? " and " + std::to_string(order.size() - kMostNames) + " more"
                               : "";
  return counted(static_cast<std::int64_t>(cells.size()), "case") + ": " + nsa::join(names) + more;
}

void write_cell(Table& table, const CellDifference& cell) {
  table.row({name_of(cell.change),
             escape(cell.label),
             escape(cell.before),
             escape(cell.now),
             cell.reason.empty() ? "–" : escape(cell.reason)});
}

// Cells of one kind with the same outcomes and the same reason, where they are many.
void write_together(Table& table, const std::vector<const CellDifference*>& cells) {
  if (cells.size() <= kFewTogether) {
    for (const CellDifference* cell : cells) write_cell(table, *cell);
    return;
  }
  const CellDifference& first = *cells.front();
  const bool reason = first.change == CellChange::not_run;
  table.row({name_of(first.change),
             names_text(cells),
             escape(first.before),
             escape(first.now),
             reason ? escape(first.reason) : "–"});
}

void write_kind(Table& table, const std::vector<const CellDifference*>& cells) {
  if (!told_together(cells.front()->change)) {
    for (std::size_t i = 0; i < cells.size() && i < kMostRows; ++i) write_cell(table, *cells[i]);
    if (cells.size() > kMostRows) {
      const auto rest = static_cast<std::int64_t>(cells.size() - kMostRows);
      table.row(
          {name_of(cells.front()->change), "and " + counted(rest, "case") + " more", "", "", ""});
    }
    return;
  }
  std::map<std::array<std::string, 3>, std::vector<const CellDifference*>> alike;
  for (const CellDifference* cell : cells) {
    const std::string reason = cell->change == CellChange::not_run ? cell->reason : "";
    alike[{cell->before, cell->now, reason}].push_back(cell);
  }
  for (const auto& [what, group] : alike) write_together(table, group);
}

std::string cells_text(const Comparison& comparison) {
  std::map<CellChange, std::vector<const CellDifference*>> kinds;
  for (const CellDifference& cell : comparison.cells) kinds[cell.change].push_back(&cell);
  Table table({"change", "case", "before", "now", "reason"});
  for (const auto& [change, cells] : kinds) write_kind(table, cells);
  std::string text = table.empty() ? "" : table.text();
  if (comparison.same > 0) {
    text += counted(static_cast<std::int64_t>(comparison.same), "case") + " as before.\n\n";
  }
  return text;
}

std::string number_text(double value) {
  constexpr double kLargestExact = 9007199254740992.0;  // 2^53
  const bool whole =
      std::isfinite(value) && std::abs(value) <= kLargestExact && std::floor(value) == value;
  return whole ? grouped(static_cast<std::int64_t>(value)) : nsa::to_text(value, 6);
}

std::string share_text(double before, double now) {
  const double share = (now - before) / before * 100.0;
  if (!std::isfinite(share)) return "–";
  return (share > 0.0 ? "+" : "") + nsa::to_text(share, 3) + " %";
}

std::string values_line(const Comparison& comparison) {
  const std::string of_cells =
      " of " + counted(static_cast<std::int64_t>(comparison.cells_with_values), "case");
  if (comparison.values_compared == 0) return "No exact value was recorded on both sides.";
  const std::string all =
      counted(static_cast<std::int64_t>(comparison.values_compared), "exact value") + of_cells;
  if (comparison.values.empty()) return "All of " + all + " agree.";
  return "Of " + all + ", " + std::to_string(comparison.values.size()) +
         (comparison.values.size() == 1 ? " differs:" : " differ:");
}

std::string values_text(const Comparison& comparison) {
  if (!comparison.not_comparable.empty()) {
    return "Exact values: " + escape(comparison.not_comparable) + ".\n\n";
  }
  Table table({"case", "exact value", "before", "now", "change"});
  for (std::size_t i = 0; i < comparison.values.size() && i < kMostRows; ++i) {
    const ValueDifference& value = comparison.values[i];
    table.row({escape(value.label),
               escape(value.metric),
               number_text(value.before),
               number_text(value.now),
               share_text(value.before, value.now)});
  }
  std::string text = values_line(comparison) + "\n\n" + (table.empty() ? "" : table.text());
  if (comparison.values.size() > kMostRows) {
    text += "And " + std::to_string(comparison.values.size() - kMostRows) + " more.\n\n";
  }
  return text;
}

std::string around_text(const Comparison& comparison) {
  if (comparison.around.empty()) return "";
  std::string text = "What else is different:\n\n";
  for (const std::string& line : comparison.around) text += "- " + escape(line) + "\n";
  return text + "\n";
}

}  // namespace

std::string comparison_line(const Comparison& comparison) {
  std::vector<std::string> parts;
  std::map<CellChange, std::size_t> counts;
  for (const CellDifference& cell : comparison.cells) ++counts[cell.change];
  for (const auto& [change, count] : counts) {
    parts.push_back(std::to_string(count) + " " + name_of(change));
  }
  if (!parts.empty()) parts.front() = "**" + parts.front() + "**";
  std::string text = parts.empty() ? "every case as before" : nsa::join(parts);
  const std::string slower = slower_cells(comparison.times);
  if (!slower.empty()) text = "**" + slower + "**; " + text;
  if (!comparison.not_comparable.empty()) return text + "; exact values not compared";
  if (comparison.values_compared == 0) return text;
  return text + "; " +
         (comparison.values.empty()
              ? "exact values equal"
              : "**" + std::to_string(comparison.values.size()) + " of " +
                    counted(static_cast<std::int64_t>(comparison.values_compared), "exact value") +
                    (comparison.values.size() == 1 ? " differs**" : " differ**"));
}

std::string untimed_text(const Comparison& comparison) {
  return cells_text(comparison) + values_text(comparison) + around_text(comparison);
}

std::string comparison_text(const Comparison& comparison) {
  const std::string times = times_text(comparison.times);
  return cells_text(comparison) + values_text(comparison) +
         (times.empty() ? "No case was measured in launches, so no time was judged.\n\n" : times) +
         around_text(comparison);
}

}  // namespace reports
