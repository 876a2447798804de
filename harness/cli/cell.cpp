#include "harness/cli/cell.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "harness/store/bisection.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

constexpr std::size_t kMostRuns = 30;  // the newest ones, in which a cell is looked for

bool is_named(const CaseRecord& record, const std::string& words) {
  return record.label == words || record.history_id == words;
}

// Of one run. Nothing where none has the name.
std::optional<Cell> cell_among(const std::vector<CaseRecord>& cases, const std::string& words) {
  std::set<std::string> ran;
  std::optional<Cell> found;
  for (const CaseRecord& record : cases) {
    if (!is_named(record, words)) continue;
    const bool was_run = outcome_of(record) != Outcome::skip;
    if (was_run) ran.insert(record.history_id);
    if (!found || (was_run && ran.size() == 1)) found = {record.label, record.history_id};
  }
  if (ran.size() > 1) {
    const std::vector<std::string> ids(ran.begin(), ran.end());
    throw nsa::Error("case: found \"" + words +
                     "\", which several cells are called; wanted one of " + nsa::join(ids));
  }
  return found;
}

}  // namespace

Cell find_cell(const Store& store, const std::string& words) {
  std::vector<RunRecord> runs = store.runs(std::numeric_limits<std::int64_t>::min(),
                                           std::numeric_limits<std::int64_t>::max());
  std::reverse(runs.begin(), runs.end());
  if (runs.size() > kMostRuns) runs.resize(kMostRuns);
  std::set<std::string> labels;
  for (const RunRecord& run : runs) {
    const std::vector<CaseRecord> cases = store.cases(run.id);
    if (const auto cell = cell_among(cases, words)) return *cell;
    for (const CaseRecord& record : cases) labels.insert(record.label);
  }
  const std::vector<std::string> known(labels.begin(), labels.end());
  nsa::throw_unknown_name({}, "case", words, known);
}

}  // namespace harness::cli
