#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "harness/cli/diagnose/run_experiments.h"
#include "harness/cli/output.h"
#include "harness/cli/running/case_needs.h"
#include "harness/cli/running/command_case.h"
#include "harness/cli/running/launch_options.h"
#include "harness/cli/running/run_and_tell.h"
#include "harness/cli/running/run_options.h"
#include "harness/cli/verbs.h"
#include "harness/diagnose/recorded.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

struct RunArguments {
  std::vector<std::string> files;
  std::vector<std::string> sets;
  std::vector<std::string> only;
  std::string seed;
  std::string observe;               // "": as the scenarios say
  double budget_seconds = 86'400.0;  // of a command
  bool dry_run = false;
  bool diagnose = false;
  bool no_arguments = false;
  bool watch = false;
  bool no_watch = false;
  RunOptions options;
  LaunchOptions launch;
};

std::vector<std::pair<std::string, std::string>> pairs_of(const std::vector<std::string>& texts,
                                                          const std::string& option) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw nsa::Error(option + ": found \"" + text + "\", wanted path=value");
    }
    pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return pairs;
}

// A seed that is drawn is said and stored as if it had been given, so that the run can be repeated.
void draw_seed(RunArguments& arguments) {
  if (arguments.seed != "random") return;
  constexpr unsigned kDrawn = 0x3fffff;  // seeds are multiplied by numbers up to 2^40
  arguments.seed = std::to_string(std::random_device{}() & kDrawn);
  log_line("--seed random: " + arguments.seed + " was drawn; --seed " + arguments.seed +
           " repeats this run");
}

ScenarioOptions options_of(const RunArguments& arguments,
                           const Paths& paths,
                           const Machine& machine) {
  ScenarioOptions options = scenario_options(arguments.options, paths, machine);
  options.sets = pairs_of(arguments.sets, "--set");
  options.only = pairs_of(arguments.only, "--only");
  if (!arguments.seed.empty()) {
    options.seed = nsa::parse_int(arguments.seed);
    if (!options.seed) {
      throw nsa::Error("--seed: found \"" + arguments.seed +
                       "\", wanted a whole number, or random");
    }
  }
  return options;
}

bool is_named(const std::string& file, const RunArguments& arguments) {
  return std::find(arguments.files.begin(), arguments.files.end(), file) != arguments.files.end();
}

// As a shell looks for it.
bool can_be_started(const std::string& program) {
  const auto is_program = [](const std::string& path) {
    std::error_code error;
    return !std::filesystem::is_directory(path, error) && access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) return is_program(program);
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (is_program((folder.empty() ? "." : folder) + "/" + program)) return true;
  }
  return false;
}

// A slip of the pen is no crash.
std::vector<std::string> command_after_dashes() {
  std::vector<std::string> words = words_after_dashes();
  if (!words.empty() && !can_be_started(words.front())) {
    throw nsa::Error("-- COMMAND: found " + words.front() +
                     ", wanted a program that PATH has, or the path of one that may be executed");
  }
  return words;
}

// `run -- CMD...`: the only case.
RunPlan plan_of_command(const RunArguments& arguments, const Paths& paths) {
  if (!arguments.files.empty() || !arguments.sets.empty() || !arguments.only.empty()) {
    throw nsa::Error("-- COMMAND: found scenarios, --set or --only before it, wanted none of them");
  }
  RunPlan plan = empty_plan(arguments.options, paths);
  CommandConfig command;
  command.argv = command_after_dashes();
  command.keeps_arguments = !arguments.no_arguments;
  command.watch = arguments.watch;
  if (command.watch && plan.package.empty()) {
    throw nsa::Error(
        "--watch: found no Python package nsa_harness beside this program, wanted one; "
        "the wheel has it, and in a checkout ./nsa-harness run");
  }
  plan.hooks_command = !plan.package.empty() && !arguments.no_watch;
  plan.cases.push_back(case_of_command(command, arguments.budget_seconds));
  plan.unmet.emplace_back();
  return plan;
}

RunPlan make_plan(const RunArguments& arguments, const Paths& paths, const Manifest& manifest) {
  RunPlan plan = empty_plan(arguments.options, paths);
  const ScenarioOptions options = options_of(arguments, paths, plan.machine);
  const bool asked = options.profile.has_value() && *options.profile != kNoProfile;
  for (const std::string& file : scenario_files(arguments.files)) {
    ScenarioOptions here = options;
    // A folder is taken as it is: what has no such profile is listed and skipped. Who names the file is told.
    const bool lacking =
        asked && !is_named(file, arguments) && !has_profile(file, *options.profile);
    if (lacking) here.profile = kNoProfile;
    for (Case& the_case : load_cases(file, here, manifest)) {
      plan.unmet.push_back(
          lacking ? Unmet{"it has no profile " + *options.profile, false}
                  : Unmet{missing_requirement(the_case.scenario, plan.machine, manifest), asked});
      plan.cases.push_back(std::move(the_case));
    }
  }
  return plan;
}

// Ranks that are no processes of this program's worker cannot be started by an agent.
void refuse_other_ranks(const RunPlan& plan) {
  if (plan.launch.words.empty()) return;
  for (const Case& the_case : plan.cases) {
    const Scenario& scenario = the_case.scenario;
    if (!scenario.is_foreign() && !scenario.is_command()) continue;
    throw nsa::Error("--launcher: found a case of kind " + scenario.kind + " (" + scenario.name +
                     "), wanted ranks of this program; a command names its launcher itself: "
                     "run -- LAUNCHER ...");
  }
}

nlohmann::json planned_json(const Case& the_case, const std::string& unmet) {
  const Scenario& scenario = the_case.scenario;
  nlohmann::json json = {{"scenario", scenario.name},
                         {"case", the_case.label()},
                         {"id", the_case.id},
                         {"profile", scenario.profile},
                         {"parameters", scenario.model.parameter_count()},
                         {"ranks", scenario.parallel.ranks},
                         {"device", nsa::name_of(scenario.parallel.device)},
                         {"backend", scenario.parallel.effective_backend()},
                         {"steps", scenario.training.steps},
                         {"budget_seconds", scenario.budget_seconds},
                         {"skip", unmet}};
  if (scenario.fault) json["fault"] = scenario.fault->name;
  if (scenario.known) json["known"] = scenario.known->because;
  const BisectConfig& bisect = scenario.bisect;
  if (!bisect.over.empty()) {
    json["bisect"] = {{"over", bisect.over}, {"candidates", bisect.candidates}};
  }
  return json;
}

int show_plan(const RunPlan& plan, bool json) {
  auto cases = nlohmann::json::array();
  for (std::size_t i = 0; i < plan.cases.size(); ++i) {
    const nlohmann::json planned = planned_json(plan.cases[i], plan.unmet[i].why);
    cases.push_back(planned);
    if (json) continue;
    const Scenario& scenario = plan.cases[i].scenario;
    const double millions = static_cast<double>(scenario.model.parameter_count()) / 1e6;
    std::cout << plan.cases[i].label() << "  " << plan.cases[i].id << "  "
              << nsa::to_text(millions, 3) << " M parameters, " << scenario.parallel.ranks
              << " ranks on " << nsa::name_of(scenario.parallel.device) << " ("
              << scenario.parallel.effective_backend() << ")"
              << (scenario.profile.empty() ? "" : ", profile " + scenario.profile)
              << (scenario.fault ? ", fault " + scenario.fault->name : "")
              << (scenario.known ? ", known to fail: " + scenario.known->because : "")
              << (scenario.bisect.over.empty() ? "" : ", bisect over " + scenario.bisect.over)
              << (plan.unmet[i].why.empty() ? "" : ", skipped: " + plan.unmet[i].why) << "\n";
  }
  if (json) std::cout << nlohmann::json({{"cases", cases}}).dump() << "\n";
  return kExitPass;
}

Pairs asked_by(const RunArguments& arguments) {
  Pairs command;
  if (!arguments.seed.empty()) command.emplace_back("seed", arguments.seed);
  for (const std::string& set : arguments.sets) command.emplace_back("set", set);
  if (arguments.diagnose) command.emplace_back(kDiagnoseOption, "");
  if (!arguments.launch.launcher.empty()) {
    command.emplace_back("launcher", arguments.launch.launcher);
    if (!arguments.launch.listen.empty()) command.emplace_back("listen", arguments.launch.listen);
  }
  return command;
}

// A profile is chosen by what the machine has; cards that vanished must not make a night of other values out of it unseen.
void tell_fallback(const RunArguments& arguments, const RunPlan& plan) {
  if (!arguments.options.profile.empty() || arguments.options.quiet) return;
  std::set<std::string> files;
  for (const Case& the_case : plan.cases) {
    if (the_case.scenario.profile.empty() && !the_case.scenario.path.empty())
      files.insert(the_case.scenario.path);
  }
  const auto without = std::count_if(
      files.begin(), files.end(), [](const std::string& file) { return has_profile(file, "gpu"); });
  if (without == 0) return;
  const std::string trouble = plan.machine.trouble;
  log_line(std::to_string(without) + (without == 1 ? " scenario runs" : " scenarios run") +
           " with the values for a machine without cards: none was found" +
           (trouble.empty() ? "" : " (" + trouble + ")") + "; --profile gpu makes that an error");
}

// An installation without a worker runs kinds kernel and command only: what it refuses says so.
RunPlan plan_here(const RunArguments& arguments, const Paths& paths, const Manifest& manifest) {
  try {
    if (!words_after_dashes().empty()) return plan_of_command(arguments, paths);
    if (arguments.files.empty()) throw nsa::Error("found no scenario, wanted files or -- COMMAND");
    return make_plan(arguments, paths, manifest);
  } catch (const nsa::Error& error) {
    if (has_worker(paths) || !words_after_dashes().empty()) throw;
    throw nsa::Error(
        std::string(error.what()) +
        " (this installation has no worker, which all kinds but kernel and command need)");
  }
}

int run(const RunArguments& arguments) {
  const Paths paths = find_paths();
  const Manifest manifest = manifest_to_run(paths);
  if (is_stale(manifest)) return kExitError;
  RunPlan plan = plan_here(arguments, paths, manifest);
  plan.launch = launch_of(arguments.launch);
  refuse_other_ranks(plan);
  if (arguments.dry_run) return show_plan(plan, arguments.options.json);
  if (arguments.no_arguments && words_after_dashes().empty()) {
    throw nsa::Error("--no-arguments: found scenarios, wanted -- COMMAND");
  }
  if ((arguments.watch || arguments.no_watch) && words_after_dashes().empty()) {
    throw nsa::Error(std::string(arguments.watch ? "--watch" : "--no-watch") +
                     ": found scenarios, wanted -- COMMAND");
  }
  const auto words = kept_command_line(command_words(), !arguments.no_arguments);
  complete_plan(plan, arguments.options, paths, manifest, words, asked_by(arguments));
  tell_fallback(arguments, plan);
  Telling telling;
  telling.json = arguments.options.json;
  if (arguments.diagnose) {
    const Pairs command = plan.provenance.command;
    plan.more = experiments_within(kDiagnoseSeconds, command);
    telling.more = [command](const auto& cases, std::string& lines, nlohmann::json&) {
      lines = diagnosis_lines(command, cases);
    };
  }
  return run_and_tell(std::move(plan), telling);
}

}  // namespace

Action add_run(CLI::App& command) {
  const auto arguments = std::make_shared<RunArguments>();
  command
      .add_option("files", arguments->files, "Scenario files, or folders of them; or -- COMMAND...")
      ->type_name("FILE|DIR");
  const auto one_each = [&](const char* name, std::vector<std::string>& values, const char* about) {
    command.add_option(name, values, about)->allow_extra_args(false)->take_all();
  };
  one_each(
      "--set", arguments->sets, "path=value: overrides any value of the scenarios; repeatable");
  one_each("--only", arguments->only, "axis=value: keeps these points of the matrix; repeatable");
  auto* watch = command.add_flag(
      "--watch",
      arguments->watch,
      "Of -- COMMAND: without a training that was looked into, there is no verdict on it");
  command
      .add_flag("--no-watch",
                arguments->no_watch,
                "Do not look into trainings of -- COMMAND whose scripts do not have the two lines")
      ->excludes(watch);
  command.add_flag("--no-arguments",
                   arguments->no_arguments,
                   "Store of -- COMMAND the program alone, none of its arguments");
  command.add_option("--seed",
                     arguments->seed,
                     "The seed of initialisation, data and every draw: a number, or random (drawn, "
                     "printed, stored)");
  command
      .add_option("--budget",
                  arguments->budget_seconds,
                  "Seconds that -- COMMAND may take; then it is ended")
      ->check(CLI::Range(1.0, 86400.0));
  command.add_flag("--dry-run", arguments->dry_run, "Show the cases, run nothing");
  command.add_flag("--diagnose",
                   arguments->diagnose,
                   "Look for the cause of each failure (nsa-harness diagnose), 120 s at most");
  command
      .add_option("--observe",
                  arguments->observe,
                  "How closely ranks are watched: 2 as checks need it, 1 without waiting for the "
                  "device in a step, 0 processes only; short for --set observe=...")
      ->check(CLI::IsMember({"0", "1", "2"}));
  add_launch_options(command, arguments->launch);
  add_run_options(command, arguments->options);
  return [arguments] {
    if (!arguments->observe.empty()) arguments->sets.push_back("observe=" + arguments->observe);
    draw_seed(*arguments);
    return run(*arguments);
  };
}

}  // namespace harness::cli
