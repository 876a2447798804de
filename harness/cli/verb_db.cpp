#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/core/exit_code.h"
#include "harness/store/rebuild.h"

namespace harness::cli {
namespace {

struct RebuildArguments {
  std::vector<std::string> folders;
  std::string database;
};

int rebuild(const RebuildArguments& arguments) {
  const auto store = Store::open(database_path(arguments.database), true);
  for (const std::string& folder : arguments.folders) {
    const std::int64_t row = rebuild_run(folder, *store);
    std::cout << folder << ": " << store->cases(row).size()
              << " cases; judge them with nsa-harness judge " << row << "\n";
  }
  return kExitPass;
}

}  // namespace

Action add_db(CLI::App& command) {
  const auto arguments = std::make_shared<RebuildArguments>();
  CLI::App* part =
      command.add_subcommand("rebuild", "Add runs from their folders: what events.jsonl recorded");
  part->add_option("folder", arguments->folders, "A run's folder, which holds run.json")
      ->required();
  part->add_option("--db",
                   arguments->database,
                   "The database (default: NSA_HARNESS_DB, or in your data folder)");
  command.require_subcommand(1);
  return [arguments] { return rebuild(*arguments); };
}

}  // namespace harness::cli
