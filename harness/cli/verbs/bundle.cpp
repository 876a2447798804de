#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>

#include "harness/cli/bundle/smaller.h"
#include "harness/cli/bundle/stored.h"
#include "harness/cli/explain/case.h"
#include "harness/cli/find_run.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/running/run_and_tell.h"
#include "harness/cli/signals.h"
#include "harness/cli/verbs.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

struct BundleArguments {
  std::string run;
  std::string the_case;
  std::string file;
  std::string database;
  bool shrink = true;
  double seconds = 120.0;
  bool json = false;
};

// ddp_onestep-1a2b3c4d.tar.zst, in the current folder.
std::string default_name(const CaseRecord& record) {
  constexpr std::size_t kDigits = 8;
  return record.scenario + "-" + record.case_id.substr(0, kDigits) + kBundleEnding;
}

// Where the tries are recorded: beside the run, whose disk has room for such.
std::string beside(const RunRecord& run, const std::string& database) {
  const std::string parent = std::filesystem::path(run.folder).parent_path().string();
  std::error_code error;
  return std::filesystem::is_directory(parent, error) ? parent : runs_folder(database, "");
}

void shrink_here(const BundleArguments& arguments, const RunRecord& run, Bundle& bundle) {
  const Paths paths = find_paths();
  const Manifest manifest = manifest_to_run(paths);
  if (is_stale(manifest)) {
    bundle.shrinking = "not tried: the worker was built from other sources than the program";
    return;
  }
  catch_signals();
  Tries tries(beside(run, database_path(arguments.database)), bundle.text, paths, manifest);
  const auto changed = differences(bundle.versions, versions_of(tries.provenance()));
  for (const std::string& line : changed) log_line("since the case ran, " + line);
  make_smaller(bundle, tries, arguments.seconds);
}

std::vector<std::string> titles_of(const FailingCase& failing) {
  std::vector<std::string> titles;
  for (const Cause& cause : failing.causes) titles.push_back(cause.title());
  return titles;
}

nlohmann::json told_json(const Bundle& bundle, const std::string& path, std::size_t bytes) {
  nlohmann::json tries = nlohmann::json::array();
  for (const ShrinkTry& one : bundle.tries) {
    tries.push_back({{"changes", one.changes}, {"saw", one.saw}, {"alike", one.alike}});
  }
  nlohmann::json object = {{"file", path},
                           {"bytes", bytes},
                           {"case", bundle.failing.the_case.label()},
                           {"outcome", name_of(bundle.failing.outcome)},
                           {"causes", titles_of(bundle.failing)},
                           {"sizes", sizes_of(bundle.failing.the_case.scenario)},
                           {"shrinking", bundle.shrinking},
                           {"holds", texts_in(bundle)},
                           {"tries", std::move(tries)}};
  if (bundle.original) {
    object["original"] = {{"causes", titles_of(*bundle.original)},
                          {"sizes", sizes_of(bundle.original->the_case.scenario)}};
  }
  return object;
}

void tell(const Bundle& bundle, const std::string& path, std::size_t bytes) {
  const std::string word = name_of(bundle.failing.outcome);
  std::cout << word << "  " << without_controls(nsa::join(titles_of(bundle.failing), "; ")) << "\n"
            << without_controls(bundle.shrinking) << "\n"
            << megabytes(static_cast<std::int64_t>(bytes)) << "; to see it fail elsewhere: "
            << "nsa-harness replay " << std::filesystem::path(path).filename().string() << "\n"
            << path << "\n";
}

int bundle_case(const BundleArguments& arguments) {
  const auto store = Store::open_read_only(database_path(arguments.database));
  const auto run = find_run(*store, arguments.run);
  if (!run) return kExitNothing;
  const CaseRecord record = find_case(*store, *run, arguments.the_case);
  Bundle bundle = bundle_of(*run, record);
  bundle.shrinking = "not asked for";
  if (arguments.shrink) shrink_here(arguments, *run, bundle);
  const std::string bytes = write_bundle(bundle);
  const std::string path =
      std::filesystem::absolute(arguments.file.empty() ? default_name(record) : arguments.file)
          .lexically_normal()
          .string();
  for (const std::string& line : texts_in(bundle)) log_line("the bundle will hold " + line);
  nsa::write_durably(path, bytes);
  if (arguments.json) {
    std::cout << told_json(bundle, path, bytes.size()).dump() << "\n";
  } else {
    tell(bundle, path, bytes.size());
  }
  return kExitPass;
}

}  // namespace

Action add_bundle(CLI::App& command) {
  const auto arguments = std::make_shared<BundleArguments>();
  command.add_option("run", arguments->run, "A run: name, number or last")->required();
  command.add_option("case", arguments->the_case, "One of its cases: label or number")->required();
  command.add_option(
      "--out", arguments->file, "The file to write (default: SCENARIO-ID.tar.zst, here)");
  command.add_flag("--shrink,!--no-shrink",
                   arguments->shrink,
                   "Look for the smallest case that fails alike (default), or not");
  command
      .add_option("--seconds",
                  arguments->seconds,
                  "Seconds for the search; then the smallest case found is taken")
      ->check(CLI::Range(1.0, 86'400.0))
      ->capture_default_str();
  command.add_option("--db",
                     arguments->database,
                     "The database (default: NSA_HARNESS_DB, or in your data folder)");
  command.add_flag("--json", arguments->json, "Print one object instead of lines");
  return [arguments] {
    try {
      return bundle_case(*arguments);
    } catch (const nsa::Error& error) {
      if (interrupted() == 0) throw;
      log_line(error.what());
      return kExitIncomplete;
    }
  };
}

}  // namespace harness::cli
