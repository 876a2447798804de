// A cell over its nights: what it took, what the gate says of each night, and the smallest change that it would have seen.
#include <iostream>
#include <limits>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/cell.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/scenario/exit_code.h"
#include "reports/markdown.h"
#include "reports/times.h"

namespace harness::cli {
namespace {

struct HistoryArguments {
  std::string cell;
  std::string database;
  int nights = 30;
};

int history_of(const HistoryArguments& arguments) {
  const auto store = Store::open_read_only(database_path(arguments.database), &log_line);
  const Cell cell = find_cell(*store, arguments.cell);
  const std::vector<RunRecord> runs = store->runs(std::numeric_limits<std::int64_t>::min(),
                                                  std::numeric_limits<std::int64_t>::max());
  const auto judged = history::judge_nights(reports::nights_of_cell(*store, runs, cell.history_id));
  std::cout << "# " << reports::escape(cell.label) << "\n\n";
  if (judged.empty()) {
    log_line("no launch of it was measured beside a control: cases of kind throughput are");
    return kExitNothing;
  }
  std::cout << reports::history_text(runs,
                                     judged,
                                     store->acceptances(cell.history_id),
                                     static_cast<std::size_t>(arguments.nights));
  return kExitPass;
}

}  // namespace

Action add_history(CLI::App& command) {
  const auto arguments = std::make_shared<HistoryArguments>();
  command.add_option("cell", arguments->cell, "A case as reports name it, or its history id")
      ->required();
  command.add_option("--nights", arguments->nights, "How many of the newest nights to show")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command.add_option("--db",
                     arguments->database,
                     "The database (default: NSA_HARNESS_DB, or in your data folder)");
  return [arguments] { return history_of(*arguments); };
}

}  // namespace harness::cli
