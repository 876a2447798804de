#include "harness/cli/running/run_options.h"

#include <filesystem>

#include <CLI/CLI.hpp>

#include "harness/cli/machine/provenance.h"
#include "harness/cli/output.h"
#include "harness/cli/running/run_and_tell.h"
#include "harness/store/run_files.h"
#include "nsa/base/error.h"
#include "nsa/base/secrets.h"
#include "nsa/base/text.h"

namespace harness::cli {

std::string Part::text() const {
  return std::to_string(part) + "/" + std::to_string(parts);
}

Part read_part(const std::string& option, const std::string& text) {
  constexpr std::int64_t kMostParts = 1000;
  const std::size_t slash = text.find('/');
  const auto part = nsa::parse_int(text.substr(0, slash));
  const auto parts =
      slash == std::string::npos ? std::nullopt : nsa::parse_int(text.substr(slash + 1));
  if (!part || !parts || *part < 1 || *parts < *part || *parts > kMostParts) {
    throw nsa::Error(option + ": found \"" + text + "\", wanted I/N with 1 <= I <= N <= 1000");
  }
  return {static_cast<int>(*part), static_cast<int>(*parts)};
}

void add_run_options(CLI::App& command, RunOptions& options) {
  command.add_option("--profile",
                     options.profile,
                     "The profile of the scenarios to use, such as gpu; base: use none");
  command.add_option(
      "--db", options.database, "The database (default: NSA_HARNESS_DB, or in your data folder)");
  command.add_option(
      "--out", options.out, "Folder for this run's folder (default: runs, beside the database)");
  command.add_flag("--keep", options.keep, "Keep the tensors of passing cases");
  command.add_flag("--json", options.json, "Print one object instead of lines");
  command.add_flag("--quiet", options.quiet, "No progress, only the result");
}

ScenarioOptions scenario_options(const RunOptions& asked,
                                 const Paths& paths,
                                 const Machine& machine) {
  ScenarioOptions options = scenario_options(paths, static_cast<int>(machine.gpus.size()));
  if (!asked.profile.empty()) options.profile = asked.profile;
  options.today = today();
  options.on_note = &log_line;
  return options;
}

RunPlan empty_plan(const RunOptions& options, const Paths& paths) {
  RunPlan plan;
  plan.machine = look_at_machine();
  plan.worker = paths.worker;
  plan.python = users_python();
  plan.package = paths.package;
  plan.fingerprint = paths.fingerprint;
  plan.environment = allowed_variables(own_variables());
  plan.keep = options.keep;
  plan.quiet = options.quiet;
  return plan;
}

void complete_plan(RunPlan& plan,
                   const RunOptions& options,
                   const Paths& paths,
                   const Manifest& manifest,
                   const std::vector<std::string>& words,
                   const Pairs& asked) {
  plan.database = database_path(options.database);
  plan.runs_folder = runs_folder(plan.database, options.out);
  plan.provenance = provenance_of(paths, manifest, plan.machine, plan.environment, words);
  std::error_code error;
  Pairs& command = plan.provenance.command;
  command = {{"program", program_path(paths)},
             {"directory", std::filesystem::current_path(error).string()},
             {"database", plan.database}};
  if (options.keep) command.emplace_back(kKeepOption, "yes");
  if (!options.profile.empty()) command.emplace_back("profile", options.profile);
  for (const auto& [key, value] : asked) command.emplace_back(key, nsa::without_secrets(value));
}

}  // namespace harness::cli
