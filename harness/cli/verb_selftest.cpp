#include <memory>
#include <random>

#include <CLI/CLI.hpp>

#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/provenance.h"
#include "harness/cli/case_needs.h"
#include "harness/cli/run_and_tell.h"
#include "harness/cli/selftest/cases.h"
#include "harness/cli/verbs.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"
#include "reports/selftest_tally.h"

namespace harness::cli {
namespace {

struct SelftestArguments {
  std::vector<std::string> files;
  std::string seed = "random";
  int draws = 1;
  std::string part = "1/1";
  bool full_size = false;
  std::string profile;
  std::string database;
  std::string out;
  bool keep = false;
  bool json = false;
  bool quiet = false;
};

std::uint64_t seed_of(const std::string& text) {
  if (text == "random") return std::random_device{}();
  const auto seed = nsa::parse_int(text);
  if (!seed || *seed < 0) {
    throw nsa::Error("--seed: found \"" + text + "\", wanted random or a whole number from 0");
  }
  return static_cast<std::uint64_t>(*seed);
}

void read_part(const std::string& text, SelftestRequest& request) {
  const std::size_t slash = text.find('/');
  const auto part = nsa::parse_int(text.substr(0, slash));
  const auto parts =
      slash == std::string::npos ? std::nullopt : nsa::parse_int(text.substr(slash + 1));
  if (!part || !parts || *part < 1 || *parts < *part || *parts > 1000) {
    throw nsa::Error("--part: found \"" + text + "\", wanted I/N with 1 <= I <= N <= 1000");
  }
  request.part = static_cast<int>(*part);
  request.parts = static_cast<int>(*parts);
}

SelftestRequest request_of(const SelftestArguments& arguments, const Paths& paths) {
  SelftestRequest request;
  request.files = scenario_files(arguments.files.empty()
                                     ? std::vector<std::string>{paths.scenarios() + "/faults"}
                                     : arguments.files);
  request.seed = seed_of(arguments.seed);
  request.draws = arguments.draws;
  request.full_size = arguments.full_size;
  read_part(arguments.part, request);
  return request;
}

RunPlan make_plan(const SelftestRequest& request,
                  const SelftestArguments& arguments,
                  const Paths& paths,
                  const Manifest& manifest) {
  RunPlan plan;
  plan.machine = look_at_machine();
  ScenarioOptions options = scenario_options(paths, static_cast<int>(plan.machine.gpus.size()));
  options.today = today();
  options.on_note = &log_line;
  if (!arguments.profile.empty()) options.profile = arguments.profile;
  plan.cases = selftest_cases(request, options, manifest);
  if (plan.cases.empty())
    throw nsa::Error("--part " + arguments.part + ": no file is in this part");
  for (const Case& the_case : plan.cases) {
    plan.unmet.push_back({missing_requirement(the_case.scenario, plan.machine, manifest), false});
  }
  plan.worker = paths.worker;
  plan.environment = allowed_variables(own_variables());
  plan.keep = arguments.keep;
  plan.quiet = arguments.quiet;
  return plan;
}

// What was asked for, with the seed that was drawn: so it can be asked for again.
Pairs command_of(const SelftestRequest& request,
                 const SelftestArguments& arguments,
                 const Paths& paths,
                 const std::string& database) {
  std::error_code error;
  Pairs command = {{"program", program_path(paths)},
                   {"verb", "selftest"},
                   {"directory", std::filesystem::current_path(error).string()},
                   {"database", database},
                   {"seed", std::to_string(request.seed)},
                   {"draws", std::to_string(request.draws)}};
  if (!arguments.profile.empty()) command.emplace_back("profile", arguments.profile);
  if (request.full_size) command.emplace_back("full-size", "");
  return command;
}

// The words of the command, with the drawn seed in place of a random one.
std::vector<std::string> repeatable_words(const SelftestRequest& request,
                                          const SelftestArguments& arguments) {
  std::vector<std::string> words = command_words();
  if (arguments.seed != "random") return words;
  const auto at = std::find(words.begin(), words.end(), "--seed");
  if (at != words.end() && at + 1 != words.end()) {
    *(at + 1) = std::to_string(request.seed);
  } else {
    words.insert(words.end(), {"--seed", std::to_string(request.seed)});
  }
  return words;
}

int selftest(const SelftestArguments& arguments) {
  const Paths paths = find_paths();
  const Manifest manifest = load_own_manifest(paths);
  if (is_stale(manifest)) return kExitError;
  const SelftestRequest request = request_of(arguments, paths);
  RunPlan plan = make_plan(request, arguments, paths, manifest);
  plan.database = database_path(arguments.database);
  plan.runs_folder = runs_folder(plan.database, arguments.out);
  plan.provenance = provenance_of(
      paths, manifest, plan.machine, plan.environment, repeatable_words(request, arguments));
  plan.provenance.command = command_of(request, arguments, paths, plan.database);
  log_line("draws with --seed " + std::to_string(request.seed));
  Telling telling;
  telling.json = arguments.json;
  telling.more = [seed = request.seed](const std::vector<CaseRecord>& cases,
                                       std::string& lines,
                                       nlohmann::json& object) {
    const reports::SelftestTally tally = reports::selftest_tally(cases);
    lines = reports::selftest_lines(tally);
    object["selftest"] = reports::selftest_json(tally);
    object["selftest"]["seed"] = seed;
  };
  return run_and_tell(std::move(plan), telling);
}

}  // namespace

Action add_selftest(CLI::App& command) {
  const auto arguments = std::make_shared<SelftestArguments>();
  command
      .add_option("files", arguments->files, "Planted faults (default: all of scenarios/faults)")
      ->type_name("FILE|DIR");
  command.add_option("--seed", arguments->seed, "Of every draw: random, or a number")
      ->capture_default_str();
  command.add_option("--draws", arguments->draws, "Of each fault")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--part", arguments->part, "I/N: a part of the faults, chosen by the seed")
      ->capture_default_str();
  command.add_flag("--full-size",
                   arguments->full_size,
                   "Faults of the large model at its size (else in the model toy)");
  command.add_option("--profile", arguments->profile, "A profile of the scenarios; base: none");
  command.add_option("--db",
                     arguments->database,
                     "The database (default: NSA_HARNESS_DB, or in your data folder)");
  command.add_option(
      "--out", arguments->out, "Folder for this run's folder (default: runs, beside the database)");
  command.add_flag("--keep", arguments->keep, "Keep the tensors of passing cases");
  command.add_flag("--json", arguments->json, "Print one object instead of lines");
  command.add_flag("--quiet", arguments->quiet, "No progress, only the result");
  return [arguments] { return selftest(*arguments); };
}

}  // namespace harness::cli
