#include <algorithm>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/find_run.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/running/retention.h"
#include "harness/cli/verbs.h"
#include "harness/scenario/exit_code.h"
#include "harness/store/maintain.h"
#include "harness/store/merge.h"
#include "harness/store/rebuild.h"
#include "nsa/base/error.h"

namespace harness::cli {
namespace {

struct DbArguments {
  std::string database;
  std::vector<std::string> folders;
  std::vector<std::string> others;
  std::vector<std::string> runs;
  std::string out;
  std::string keep;
  int files = 10;
};

// Each folder is a run of its own: one that is refused takes no other with it.
int rebuild(const DbArguments& arguments) {
  const auto store = Store::open(database_path(arguments.database), true, &log_line);
  int code = kExitPass;
  for (const std::string& folder : arguments.folders) {
    try {
      const std::int64_t row = rebuild_run(folder, *store);
      const std::vector<CaseRecord> cases = store->cases(row);
      const auto judged = std::count_if(cases.begin(), cases.end(), [](const CaseRecord& record) {
        return record.judgement || !record.skip_reason.empty();
      });
      const std::string rest = judged == static_cast<std::ptrdiff_t>(cases.size())
                                   ? ""
                                   : ", of which " + std::to_string(cases.size() - judged) +
                                         " have no judgement (nsa-harness judge " +
                                         std::to_string(row) + ")";
      std::cout << folder << ": run " << row << ", " << cases.size() << " cases" << rest << "\n";
    } catch (const nsa::Error& error) {
      log_line(error.what());
      code = std::max(code, exit_code(error));
    }
  }
  return code;
}

int prune(const DbArguments& arguments) {
  const auto store = Store::open(database_path(arguments.database), false, &log_line);
  prune_and_tell(*store, {days_in_ms("--keep", arguments.keep), arguments.files, ""}, std::cout);
  return kExitPass;
}

int check(const DbArguments& arguments) {
  const std::string path = database_path(arguments.database);
  const std::vector<std::string> wrong = check_database(path, &log_line);
  for (const std::string& line : wrong) std::cout << line << "\n";
  if (wrong.empty()) std::cout << path << ": whole\n";
  return wrong.empty() ? kExitPass : kExitUsage;
}

// Each source by itself, as with rebuild(): what was merged stays.
int merge(const DbArguments& arguments) {
  const std::string path = database_path(arguments.database);
  int code = kExitPass;
  for (const std::string& from : arguments.others) {
    try {
      const Merged merged = merge_database(path, from, &log_line);
      std::cout << from << ": " << merged.added << " runs added, " << merged.known
                << " were there already\n";
    } catch (const nsa::Error& error) {
      log_line(std::string("NOT MERGED ") + error.what());
      code = std::max(code, exit_code(error));
    }
  }
  return code;
}

int export_some(const DbArguments& arguments) {
  const std::string path = database_path(arguments.database);
  std::vector<std::string> names;
  {
    const auto store = Store::open_read_only(path, &log_line);
    for (const std::string& words : arguments.runs) {
      const auto run = find_run(*store, words);
      if (!run) return kExitNothing;
      const bool known = std::find(names.begin(), names.end(), run->name) != names.end();
      if (!known) names.push_back(run->name);
    }
  }
  export_runs(path, arguments.out, names, &log_line);
  std::cout << arguments.out << "\n";
  return kExitPass;
}

int vacuum(const DbArguments& arguments) {
  const std::string path = database_path(arguments.database);
  const Sizes sizes = vacuum_database(path, &log_line);
  std::cout << path << ": " << megabytes(sizes.before_bytes) << " before, "
            << megabytes(sizes.after_bytes) << " now\n";
  return kExitPass;
}

}  // namespace

Action add_db(CLI::App& command) {
  const auto arguments = std::make_shared<DbArguments>();
  const auto part = [&](const char* name, const char* about) {
    CLI::App* added = command.add_subcommand(name, about);
    added->add_option("--db",
                      arguments->database,
                      "The database (default: NSA_HARNESS_DB, or in your data folder)");
    return added;
  };
  CLI::App* rebuilds = part("rebuild", "Add runs from their folders, with their verdicts");
  rebuilds->add_option("folder", arguments->folders, "A run's folder, which holds run.json")
      ->required();
  CLI::App* prunes = part("prune", "Drop folders of old runs; the rows of the database stay");
  prunes->add_option("--keep", arguments->keep, "Drop folders of runs older than this: 90d")
      ->required();
  prunes
      ->add_option("--tensors",
                   arguments->files,
                   "Of cases that did not pass, keep the tensors of so many of the newest runs")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  CLI::App* merges = part("merge", "Add the runs of other databases; those of a known name stay");
  merges->add_option("other", arguments->others, "A database, which is only read")->required();
  CLI::App* exports =
      part("export", "Write some runs into a database of their own, to be sent or merged");
  exports->add_option("run", arguments->runs, "A run's name or number, or last")->required();
  exports->add_option("--out", arguments->out, "The new database")->required();
  CLI::App* checks = part("check", "Look whether the database is whole");
  CLI::App* vacuums = part("vacuum", "Give the room of deleted rows back to the disk");
  command.require_subcommand(1);
  return [=] {
    if (rebuilds->parsed()) return rebuild(*arguments);
    if (prunes->parsed()) return prune(*arguments);
    if (merges->parsed()) return merge(*arguments);
    if (exports->parsed()) return export_some(*arguments);
    if (checks->parsed()) return check(*arguments);
    return vacuums->parsed() ? vacuum(*arguments) : kExitInternal;
  };
}

}  // namespace harness::cli
