#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/bundle/stored.h"
#include "harness/cli/bundle/tries.h"
#include "harness/cli/diagnose/run_experiments.h"
#include "harness/cli/explain/case.h"
#include "harness/cli/find_run.h"
#include "harness/cli/output.h"
#include "harness/cli/running/case_needs.h"
#include "harness/cli/running/run_and_tell.h"
#include "harness/cli/running/run_options.h"
#include "harness/cli/verbs.h"
#include "harness/diagnose/recorded.h"
#include "harness/scenario/exit_code.h"
#include "harness/store/experiments.h"
#include "nsa/base/error.h"
#include "nsa/base/temporary_folder.h"

namespace harness::cli {
namespace {

struct DiagnoseArguments {
  std::string run;
  std::string the_case;
  double seconds = kDiagnoseSeconds;
  RunOptions options;
};

// Of a whole run: what failed, whether or not somebody expected that.
std::vector<CaseRecord> failed_cases(const Store& store, const RunRecord& run) {
  std::vector<CaseRecord> failed;
  for (CaseRecord& record : store.cases(run.id)) {
    if (is_experiment(record) || !record.judgement) continue;
    const Judgement& judgement = *record.judgement;
    const bool judged_to_fail = has_failed(judgement.outcome) || judgement.outcome == Outcome::pass;
    if (judged_to_fail && !causes_of(judgement).empty()) failed.push_back(std::move(record));
  }
  return failed;
}

struct ToDiagnose {
  Bundle bundle;
  AskedDiagnosis asked;
};

// A case that is named and cannot be diagnosed is an error; one among all of a run's is told.
std::vector<ToDiagnose> cases_to_diagnose(const DiagnoseArguments& arguments,
                                          const RunRecord& run) {
  const auto store = Store::open_read_only(database_path(arguments.options.database));
  const bool named = !arguments.the_case.empty();
  std::vector<ToDiagnose> all;
  for (const CaseRecord& record : named ? std::vector{find_case(*store, run, arguments.the_case)}
                                        : failed_cases(*store, run)) {
    try {
      if (is_experiment(record)) {
        throw nsa::Error("case " + record.label + ": it is an experiment of a diagnosis, wanted " +
                         "the case that it was made of");
      }
      Bundle bundle = bundle_of(run, record);
      AskedDiagnosis asked{run.name, record.label, bundle.failing.causes};
      all.push_back({std::move(bundle), std::move(asked)});
    } catch (const nsa::Error& error) {
      if (named) throw;
      log_line(std::string("not diagnosed: ") + error.what());
    }
  }
  return all;
}

// What the run itself ended with counts where it could not be run or recorded; else, whether all causes are known.
int exit_code_of(const std::vector<RecordedDiagnosis>& diagnoses, int of_run) {
  if (of_run != kExitPass && of_run != kExitFailed && of_run != kExitInconclusive) return of_run;
  const bool known =
      std::all_of(diagnoses.begin(), diagnoses.end(), [](const RecordedDiagnosis& one) {
        return is_known(one.diagnosis.certainty);
      });
  return known && !diagnoses.empty() ? kExitPass : kExitInconclusive;
}

int diagnose_cases(const DiagnoseArguments& arguments) {
  const auto store = Store::open_read_only(database_path(arguments.options.database));
  const auto run = find_run(*store, arguments.run);
  if (!run) return kExitNothing;
  const std::vector<ToDiagnose> wanted = cases_to_diagnose(arguments, *run);
  if (wanted.empty()) {
    log_line("run " + run->name + " has no failure that can be diagnosed");
    return kExitNothing;
  }
  const Paths paths = find_paths();
  const Manifest manifest = manifest_to_run(paths);
  if (is_stale(manifest)) return kExitError;
  RunPlan plan = empty_plan(arguments.options, paths);
  const nsa::TemporaryFolder folder;
  Pairs command = {{"verb", "diagnose"}};
  for (const auto& [bundle, asked] : wanted) {
    plan.cases.push_back(case_to_run(
        bundle.failing.the_case, bundle.text, folder / "", paths, manifest, plan.machine));
    plan.unmet.push_back(
        {missing_requirement(plan.cases.back().scenario, plan.machine, manifest), false});
    command.emplace_back(kDiagnoseOption, asked_text(asked));
  }
  complete_plan(plan, arguments.options, paths, manifest, command_words(), command);
  plan.more = experiments_within(arguments.seconds, command);
  RunRecord told;
  told.provenance.command = command;
  std::vector<RecordedDiagnosis> found;
  Telling telling;
  telling.json = arguments.options.json;
  telling.more = [&](const std::vector<CaseRecord>& cases, std::string& lines, nlohmann::json&) {
    found = diagnoses_of(told, cases);
    lines = diagnosis_lines(command, cases);
  };
  const int of_run = run_and_tell(std::move(plan), telling);
  return exit_code_of(found, of_run);
}

}  // namespace

Action add_diagnose(CLI::App& command) {
  const auto arguments = std::make_shared<DiagnoseArguments>();
  command.add_option("run", arguments->run, "A run: name, number or last")->required();
  command.add_option(
      "case", arguments->the_case, "One of its cases: label or number (default: all that failed)");
  command.add_option("--budget", arguments->seconds, "Seconds for the experiments of each case")
      ->check(CLI::Range(1.0, 86'400.0))
      ->capture_default_str();
  command.add_option("--db",
                     arguments->options.database,
                     "The database (default: NSA_HARNESS_DB, or in your data folder)");
  command.add_option(
      "--out",
      arguments->options.out,
      "Folder for the folder of the experiments (default: runs, beside the database)");
  command.add_flag("--json", arguments->options.json, "Print one object instead of lines");
  command.add_flag("--quiet", arguments->options.quiet, "No progress, only the result");
  return [arguments] { return diagnose_cases(*arguments); };
}

}  // namespace harness::cli
