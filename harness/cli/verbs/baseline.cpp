// From which run on the times of a cell are what they are meant to be. What was found different stays so until somebody accepts it.
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/cell.h"
#include "harness/cli/find_run.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/history/judge_nights.h"
#include "harness/run/clock.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"
#include "reports/range.h"

namespace harness::cli {
namespace {

struct BaselineArguments {
  std::string cell;
  std::string run = "last";
  std::string because;
  std::string database;
};

std::size_t launches_in(const Store& store, const Cell& cell, std::int64_t run_id) {
  const std::vector<LaunchTimes> launches = store.launches(cell.history_id);
  return static_cast<std::size_t>(
      std::count_if(launches.begin(), launches.end(), [&](const LaunchTimes& launch) {
        return launch.run_id == run_id;
      }));
}

int accept(const BaselineArguments& arguments) {
  if (arguments.because.find_first_not_of(" \t\n") == std::string::npos)
    throw nsa::Error("--because: found nothing, wanted the reason");
  const auto store = Store::open(database_path(arguments.database), false, &log_line);
  const auto run = find_run(*store, arguments.run);
  if (!run) return kExitNothing;
  const Cell cell = find_cell(*store, arguments.cell);
  const std::size_t launches = launches_in(*store, cell, run->id);
  if (launches < history::kFewestLaunches) {
    throw nsa::Error("run " + run->name + " measured " + cell.label + " in " +
                     std::to_string(launches) + " launches, wanted " +
                     std::to_string(history::kFewestLaunches) + ": accept a run of nightly");
  }
  store->accept({cell.history_id, run->id, wall_clock_ms(), arguments.because});
  std::cout << cell.label << ": what run " << run->name << " measured is its reference\n";
  return kExitPass;
}

int show(const BaselineArguments& arguments) {
  const auto store = Store::open_read_only(database_path(arguments.database), &log_line);
  const Cell cell = find_cell(*store, arguments.cell);
  const std::vector<Acceptance> accepted = store->acceptances(cell.history_id);
  if (accepted.empty()) std::cout << cell.label << ": its first nights are its reference\n";
  for (const Acceptance& one : accepted) {
    std::cout << cell.label << ": from run " << one.run_id << " on, accepted at "
              << reports::time_text(one.accepted_ms, 0) << " UTC: " << one.reason << "\n";
  }
  return kExitPass;
}

}  // namespace

Action add_baseline(CLI::App& command) {
  const auto arguments = std::make_shared<BaselineArguments>();
  const auto part = [&](const char* name, const char* about) {
    CLI::App* added = command.add_subcommand(name, about);
    added->add_option("cell", arguments->cell, "A case as reports name it, or its history id")
        ->required();
    added->add_option("--db",
                      arguments->database,
                      "The database (default: NSA_HARNESS_DB, or in your data folder)");
    return added;
  };
  CLI::App* accepts = part("accept", "Accept a run's times of the cell as its new reference");
  accepts->add_option("--run", arguments->run, "The run's name or number, or last")
      ->capture_default_str();
  accepts->add_option("--because", arguments->because, "The reason, which `history` shows")
      ->required();
  CLI::App* shows = part("show", "Since when the reference of the cell holds, and why");
  command.require_subcommand(1);
  return [=] { return shows->parsed() ? show(*arguments) : accept(*arguments); };
}

}  // namespace harness::cli
