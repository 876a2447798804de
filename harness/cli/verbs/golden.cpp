// Somebody else's tensors against the oracle and the model.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include <CLI/CLI.hpp>

#include "harness/cli/golden/case.h"
#include "harness/cli/golden/judge.h"
#include "harness/cli/golden/model.h"
#include "harness/cli/golden/oracle.h"
#include "harness/cli/golden/text.h"
#include "harness/cli/machine/environment.h"
#include "harness/cli/machine/machine.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/signals.h"
#include "harness/cli/verbs.h"
#include "harness/run/build_info.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"

namespace harness::cli {
namespace {

namespace fs = std::filesystem;

struct GoldenArguments {
  std::vector<std::string> files;
  std::string export_folder;
  bool oracle_only = false;
  bool json = false;
};

// What was seen over all files, for the exit code.
struct Seen {
  bool differs = false;
  bool error = false;
};

// Reads every file before anything is computed, reports each bad one, and gives the good ones.
std::vector<std::string> readable(const std::vector<std::string>& files, nlohmann::json& entries) {
  std::vector<std::string> good;
  for (const std::string& file : files) {
    try {
      (void)golden::read_case(file);
      good.push_back(file);
    } catch (const nsa::Error& error) {
      log_line(error.what());
      entries.push_back({{"file", file}, {"refused", error.what()}});
    }
  }
  return good;
}

std::string export_path(const GoldenArguments& arguments, const std::string& file) {
  return (fs::path(arguments.export_folder) / fs::path(file).filename()).string();
}

// Nothing that was given is written over, and nothing written twice.
void prepare_export(const GoldenArguments& arguments) {
  if (arguments.export_folder.empty()) return;
  std::error_code error;
  fs::create_directories(arguments.export_folder, error);
  if (!fs::is_directory(arguments.export_folder)) {
    throw nsa::Error(nsa::Location{arguments.export_folder},
                     "cannot make this folder: " + error.message());
  }
  std::set<std::string> targets;
  for (const std::string& file : arguments.files) {
    const std::string target = export_path(arguments, file);
    if (fs::equivalent(file, target, error)) {
      throw nsa::Error(nsa::Location{target}, "--export would write over the file that was given");
    }
    if (!targets.insert(target).second) {
      throw nsa::Error(nsa::Location{target}, "--export would write two files to this name");
    }
  }
}

void judge_file(const std::string& file,
                const GoldenArguments& arguments,
                const std::optional<golden::Worker>& worker,
                nlohmann::json& entries,
                Seen& seen) {
  using Clock = std::chrono::steady_clock;
  const golden::Case the_case = golden::read_case(file);
  const auto begun = Clock::now();
  const golden::Wanted oracle = golden::oracle_results(the_case, golden::Extent::judged);
  const std::chrono::duration<double> seconds = Clock::now() - begun;
  std::string trouble;
  std::optional<golden::Wanted> model;
  try {
    if (worker) model = golden::model_results(the_case, *worker, seconds.count());
  } catch (const golden::WorkerFailure& failure) {
    trouble = failure.what();
  }
  const golden::Judgement judgement =
      golden::judge_golden(the_case, oracle, model ? &*model : nullptr);
  seen.differs = seen.differs || !judgement.agrees();
  seen.error = seen.error || !trouble.empty();
  const golden::Report report{the_case, judgement, trouble};
  if (!arguments.export_folder.empty()) {
    golden::export_golden(the_case, export_path(arguments, file));
  }
  if (arguments.json) {
    entries.push_back(golden::report_json(report));
  } else {
    std::cout << golden::report_text(report) << std::flush;
  }
}

golden::Worker own_worker(const Paths& paths) {
  constexpr int kOneProcess = 1;
  Scenario scenario;
  scenario.parallel.ranks = kOneProcess;
  return {
      paths.worker,
      worker_environment(allowed_variables(own_variables()), scenario, look_at_machine().cores)};
}

// The worker of this very build, or nothing when it is another one's.
std::optional<golden::Worker> checked_worker() {
  const Paths paths = find_paths();
  if (!has_worker(paths)) {
    throw nsa::Error(
        "this installation has no worker, which computes the model's side: start with "
        "--oracle-only");
  }
  const Manifest manifest = load_own_manifest(paths);
  if (manifest.source_hash != built_source_hash()) {
    log_line("stale build: the worker was built from other sources (" + manifest.source_hash +
             ") than this program (" + built_source_hash() + "): build both again");
    return std::nullopt;
  }
  return own_worker(paths);
}

int golden_files(const GoldenArguments& arguments) {
  std::optional<golden::Worker> worker;
  if (!arguments.oracle_only && !(worker = checked_worker())) return kExitError;
  auto entries = nlohmann::json::array();
  const std::vector<std::string> good = readable(arguments.files, entries);
  if (!good.empty()) prepare_export(arguments);
  Seen seen;
  try {
    for (const std::string& file : good) {
      judge_file(file, arguments, worker, entries, seen);
    }
  } catch (const golden::Interrupted&) {
    log_line("interrupted");
    return kExitIncomplete;
  }
  const int code = good.size() < arguments.files.size() ? kExitUsage
                   : seen.differs                       ? kExitFailed
                   : seen.error                         ? kExitError
                                                        : kExitPass;
  if (arguments.json) {
    const nlohmann::json all = {{"exit", code}, {"files", entries}};
    std::cout << all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  }
  return code;
}

}  // namespace

Action add_golden(CLI::App& command) {
  const auto arguments = std::make_shared<GoldenArguments>();
  command.add_option("files", arguments->files, "Golden files (docs/golden.md)")->required();
  command.add_option("--export",
                     arguments->export_folder,
                     "Write a file of the same name here, with every result as the oracle "
                     "computes it");
  command.add_flag("--oracle-only",
                   arguments->oracle_only,
                   "Compare with the oracle alone: needs no worker, so no LibTorch");
  command.add_flag("--json", arguments->json, "Print one object instead of tables");
  return [arguments] { return golden_files(*arguments); };
}

}  // namespace harness::cli
