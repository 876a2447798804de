#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>

#include "harness/cli/bundle/stored.h"
#include "harness/cli/bundle/tries.h"
#include "harness/cli/command.h"
#include "harness/cli/output.h"
#include "harness/cli/running/case_needs.h"
#include "harness/cli/running/run_and_tell.h"
#include "harness/cli/running/run_options.h"
#include "harness/cli/verbs.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/temporary_folder.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

struct ReplayArguments {
  std::string file;
  std::string kernel;  // where the script or folder of a kernel lies here
  bool original = false;
  bool operator_alone = false;
  RunOptions options;
};

// What came of it, once the case was judged.
struct Replay {
  std::string result = "unjudged";  // same, another, none, unjudged
  std::string line;
  Comparison comparison;
  std::vector<std::string> seen;
};

std::vector<std::string> titles(const std::vector<Cause>& causes) {
  std::vector<std::string> all;
  for (const Cause& cause : causes) all.push_back(cause.title());
  return all;
}

bool was_judged(Outcome outcome) {
  return outcome != Outcome::error && outcome != Outcome::inconclusive && outcome != Outcome::skip;
}

std::string also_text(const Comparison& comparison) {
  std::string text;
  if (!comparison.also.empty()) text += "; besides: " + nsa::join(comparison.also);
  if (!comparison.missing.empty()) text += "; not seen: " + nsa::join(comparison.missing);
  return text;
}

Replay replayed(const FailingCase& expected, const CaseRecord& record) {
  Replay replay;
  const std::string wanted = expected.causes.front().title();
  const Outcome outcome = record.judgement ? record.judgement->outcome : Outcome::skip;
  if (!was_judged(outcome)) {
    replay.line = "NOT judged: " + std::string(name_of(outcome)) + ", " +
                  (record.judgement ? record.judgement->reason : record.skip_reason) +
                  "; expected " + wanted;
    return replay;
  }
  const std::vector<Cause> causes = causes_of(*record.judgement);
  replay.seen = titles(causes);
  replay.comparison = compare_causes(expected.causes, causes);
  switch (replay.comparison.result) {
    case Replayed::same:
      replay.result = "same";
      replay.line = "SAME failure: " + wanted +
                    (replay.comparison.same_place ? "" : ", here at another place") +
                    also_text(replay.comparison);
      break;
    case Replayed::another:
      replay.result = "another";
      replay.line = "ANOTHER failure: " + nsa::join(replay.seen, "; ") + "; expected " + wanted;
      break;
    case Replayed::none:
      replay.result = "none";
      replay.line = "NOT reproduced: " + std::string(name_of(outcome)) + ", expected " + wanted;
  }
  return replay;
}

// A failure of another name answers the question no more than missing evidence does.
int exit_code_of(const Replay& replay, int of_run) {
  const bool another = replay.result == "another" && of_run == kExitFailed;
  return another ? kExitInconclusive : of_run;
}

void tell_bundle(const FailingCase& failing,
                 const Bundle& bundle,
                 const std::vector<std::string>& differing) {
  log_line("expected: " + std::string(name_of(failing.outcome)) + ", " +
           nsa::join(titles(failing.causes), "; "));
  if (bundle.original) log_line("the bundle's case was " + bundle.shrinking);
  for (const std::string& line : differing) log_line("differs: " + line);
}

std::string lines_of(const Replay& replay, const std::vector<std::string>& differing) {
  std::string lines = without_controls(replay.line) + "\n";
  if (replay.result == "same") return lines;
  if (differing.empty()) lines += "program, machine and environment are those of the bundle\n";
  for (const std::string& line : differing) lines += without_controls("differs: " + line) + "\n";
  return lines;
}

nlohmann::json json_of(const Replay& replay,
                       const FailingCase& expected,
                       const std::vector<std::string>& differing) {
  return {{"result", replay.result},
          {"text", replay.line},
          {"expected", titles(expected.causes)},
          {"seen", replay.seen},
          {"same_place", replay.comparison.same_place},
          {"differs", differing}};
}

// Without --db, what is said with --out lies there whole, the database included.
RunOptions with_own_database(RunOptions options) {
  if (!options.out.empty() && options.database.empty()) {
    options.database = std::filesystem::absolute(options.out).string() + "/runs.db";
  }
  return options;
}

// The one operator in which a NaN was born, without the case around it. It fails where it gives a NaN again.
int replay_operator(const ReplayArguments& arguments, const Bundle& bundle) {
  constexpr int kWithinMs = 120'000;  // LibTorch is read from a cold disk
  if (bundle.operator_call.empty()) {
    throw nsa::Error(arguments.file +
                     ": found no operator in it: no NaN was born in one, or what " +
                     "it was given is larger than a MiB");
  }
  const Paths paths = find_paths();
  if (is_stale(manifest_to_run(paths))) return kExitError;
  const nsa::TemporaryFolder folder;
  const std::string file = folder / "operator.safetensors";
  nsa::write_durably(file, bundle.operator_call);
  const CommandResult ran = run_command(worker_argv(paths, {"--operator", file}), kWithinMs);
  if (!ran.ok()) {
    log_line("the operator did not run: " +
             (ran.timed_out ? std::string("no answer in 120 s") : without_controls(ran.out)));
    return kExitError;
  }
  const nlohmann::json said = nlohmann::json::parse(ran.out);
  const bool again = said.at("nan").get<std::int64_t>() > 0;
  if (arguments.options.json) {
    std::cout
        << nlohmann::json{{"exit", again ? kExitFailed : kExitPass}, {"operator", said}}.dump()
        << "\n";
  } else {
    std::cout << (again ? "NaN AGAIN" : "NO NaN") << "  " << said.at("operator").get<std::string>()
              << " alone: " << said.at("nan") << " of " << said.at("numbers")
              << " numbers are NaN\n";
  }
  return again ? kExitFailed : kExitPass;
}

// Of a kernel of the user's own a bundle knows the name of its script or folder alone.
void find_kernel(Scenario& scenario, const std::string& given) {
  std::string& from = scenario.kernel.from;
  if (from.empty() && given.empty()) return;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(given.empty() ? from : given, error);
  if (error || !std::filesystem::exists(path, error)) {
    throw nsa::Error(
        (given.empty() ? "kernel: found no " + from + " in this folder"
                       : "--kernel: found no " + given) +
        ", wanted --kernel PATH: the script, or the folder to import from, that defines " +
        scenario.kernel.callable + "; a bundle does not hold it");
  }
  from = path.lexically_normal().string();
}

int replay(const ReplayArguments& arguments) {
  const Bundle bundle = read_bundle_file(arguments.file);
  if (arguments.operator_alone) return replay_operator(arguments, bundle);
  const bool as_it_ran = arguments.original && bundle.original;
  FailingCase failing = as_it_ran ? *bundle.original : bundle.failing;
  find_kernel(failing.the_case.scenario, arguments.kernel);
  const Paths paths = find_paths();
  const Manifest manifest = manifest_to_run(paths);
  if (is_stale(manifest)) return kExitError;
  const RunOptions options = with_own_database(arguments.options);
  RunPlan plan = empty_plan(options, paths);
  const nsa::TemporaryFolder folder;
  plan.cases = {
      case_to_run(failing.the_case, bundle.text, folder / "", paths, manifest, plan.machine)};
  plan.unmet = {{missing_requirement(plan.cases.front().scenario, plan.machine, manifest), false}};
  complete_plan(plan, options, paths, manifest, command_words(), {{"verb", "replay"}});
  std::vector<std::string> differing = differences(bundle.versions, versions_of(plan.provenance));
  for (const std::string& line :
       differences(bundle.environment, steering_variables(plan.environment))) {
    differing.push_back(line);
  }
  if (!options.quiet) tell_bundle(failing, bundle, differing);
  Replay seen;
  Telling telling;
  telling.json = options.json;
  telling.more =
      [&](const std::vector<CaseRecord>& cases, std::string& lines, nlohmann::json& object) {
        seen = replayed(failing, cases.front());
        lines = lines_of(seen, differing);
        object["replay"] = json_of(seen, failing, differing);
      };
  const int of_run = run_and_tell(std::move(plan), telling);
  return exit_code_of(seen, of_run);
}

}  // namespace

Action add_replay(CLI::App& command) {
  const auto arguments = std::make_shared<ReplayArguments>();
  command.add_option("file", arguments->file, "A bundle")->required()->type_name("FILE");
  command.add_flag(
      "--original", arguments->original, "Run the case as it was, not the smaller one made of it");
  command.add_flag("--operator",
                   arguments->operator_alone,
                   "Run only the operator that made a NaN, with what it was given");
  command
      .add_option("--kernel",
                  arguments->kernel,
                  "Of a kernel of your own: its script, or the folder that it is imported from "
                  "(default: here, by its name)")
      ->type_name("FILE|DIR");
  command.add_option("--db",
                     arguments->options.database,
                     "The database (default: in --out, else NSA_HARNESS_DB, or your data folder)");
  command.add_option("--out",
                     arguments->options.out,
                     "Folder for all that the replay writes (default: runs, beside the database)");
  command.add_flag("--json", arguments->options.json, "Print one object instead of lines");
  command.add_flag("--quiet", arguments->options.quiet, "No progress, only the result");
  return [arguments] { return replay(*arguments); };
}

}  // namespace harness::cli
