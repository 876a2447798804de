#include <memory>
#include <random>

#include <CLI/CLI.hpp>

#include "harness/cli/output.h"
#include "harness/cli/running/case_needs.h"
#include "harness/cli/running/run_and_tell.h"
#include "harness/cli/running/run_options.h"
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
  RunOptions options;
};

std::uint64_t seed_of(const std::string& text) {
  if (text == "random") return std::random_device{}();
  const auto seed = nsa::parse_int(text);
  if (!seed || *seed < 0) {
    throw nsa::Error("--seed: found \"" + text + "\", wanted random or a whole number from 0");
  }
  return static_cast<std::uint64_t>(*seed);
}

SelftestRequest request_of(const SelftestArguments& arguments, const Paths& paths) {
  SelftestRequest request;
  request.files = scenario_files(arguments.files.empty()
                                     ? std::vector<std::string>{paths.scenarios() + "/faults"}
                                     : arguments.files);
  request.seed = seed_of(arguments.seed);
  request.draws = arguments.draws;
  request.full_size = arguments.full_size;
  const Part part = read_part("--part", arguments.part);
  request.part = part.part;
  request.parts = part.parts;
  return request;
}

RunPlan make_plan(const SelftestRequest& request,
                  const SelftestArguments& arguments,
                  const Paths& paths,
                  const Manifest& manifest) {
  RunPlan plan = empty_plan(arguments.options, paths);
  plan.cases =
      selftest_cases(request, scenario_options(arguments.options, paths, plan.machine), manifest);
  if (plan.cases.empty())
    throw nsa::Error("--part " + arguments.part + ": no file is in this part");
  for (const Case& the_case : plan.cases) {
    plan.unmet.push_back({missing_requirement(the_case.scenario, plan.machine, manifest), false});
  }
  return plan;
}

// What was asked for, with the seed that was drawn: so it can be asked for again.
Pairs asked_by(const SelftestRequest& request) {
  Pairs command = {{"verb", "selftest"},
                   {"seed", std::to_string(request.seed)},
                   {"draws", std::to_string(request.draws)}};
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
  (void)load_own_manifest(paths);  // nearly every scenario needs the worker
  const Manifest manifest = manifest_to_run(paths);
  if (is_stale(manifest)) return kExitError;
  const SelftestRequest request = request_of(arguments, paths);
  RunPlan plan = make_plan(request, arguments, paths, manifest);
  complete_plan(plan,
                arguments.options,
                paths,
                manifest,
                repeatable_words(request, arguments),
                asked_by(request));
  log_line("draws with --seed " + std::to_string(request.seed));
  Telling telling;
  telling.json = arguments.options.json;
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
  command.add_option("--seed", arguments->seed, "The seed of every draw: a number, or random")
      ->capture_default_str();
  command.add_option("--draws", arguments->draws, "How many places to draw for each fault")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--part", arguments->part, "I/N: a part of the faults, chosen by the seed")
      ->capture_default_str();
  command.add_flag("--full-size",
                   arguments->full_size,
                   "Plant faults of the large model at its size (default: in the model toy)");
  add_run_options(command, arguments->options);
  return [arguments] { return selftest(*arguments); };
}

}  // namespace harness::cli
