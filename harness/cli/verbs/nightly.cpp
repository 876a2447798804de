// All that a runner calls every night. What the machine lacks is listed as not run; it is an error only where the machine could do
// it in an earlier night.
#include <chrono>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/machine/doctor.h"
#include "harness/cli/nightly/budget.h"
#include "harness/cli/nightly/past.h"
#include "harness/cli/nightly/place.h"
#include "harness/cli/nightly/plan.h"
#include "harness/cli/nightly/timed_cells.h"
#include "harness/cli/output.h"
#include "harness/cli/running/case_needs.h"
#include "harness/cli/running/retention.h"
#include "harness/cli/running/run_and_tell.h"
#include "harness/cli/running/run_options.h"
#include "harness/cli/verbs.h"
#include "harness/scenario/exit_code.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "reports/markdown.h"
#include "reports/report.h"
#include "reports/times.h"

namespace harness::cli {
namespace {

struct NightlyArguments {
  std::string budget = "3h";
  std::string scenarios;
  std::string shard;
  std::string database;
  std::string out;
  std::string summary;
  std::string report;
  std::string retain = "90d";
  int tensors = 10;
  int cards = 0;
  bool accept_machine = false;
};

// The arguments as they are meant.
struct NightRequest {
  std::string scenarios;
  std::vector<std::string> files;
  Part shard;
  std::chrono::milliseconds budget;
  std::int64_t keep_ms = 0;
};

NightRequest read_request(const NightlyArguments& arguments, const Paths& paths) {
  NightRequest request;
  request.scenarios = arguments.scenarios.empty() ? paths.scenarios() : arguments.scenarios;
  request.files = scenario_files({request.scenarios});
  if (!arguments.shard.empty()) request.shard = read_part("--shard", arguments.shard);
  request.budget = read_budget(arguments.budget);
  request.keep_ms = days_in_ms("--retain", arguments.retain);
  return request;
}

// What is wrong with the machine as it is, so that nothing is run.
std::vector<Fact> unfit(const std::vector<Fact>& facts,
                        const NightlyArguments& arguments,
                        const Machine& machine,
                        const Manifest& manifest) {
  std::vector<Fact> wrong;
  for (const Fact& fact : facts) {
    // An old driver takes only its cards away: their cases are listed as not run.
    if (fact.health == Health::failed && fact.name != "driver") wrong.push_back(fact);
  }
  if (!machine.trouble.empty()) wrong.push_back({"gpu", Health::failed, machine.trouble});
  const std::string unusable = cards_unusable(machine, manifest);
  const int usable = unusable.empty() ? static_cast<int>(machine.gpus.size()) : 0;
  if (usable < arguments.cards) {
    wrong.push_back({"gpu",
                     Health::failed,
                     "--cards " + std::to_string(arguments.cards) + ": this machine has " +
                         std::to_string(usable) + " that this build can use" +
                         (unusable.empty() ? "" : " (" + unusable + ")")});
  }
  return wrong;
}

int refuse_machine(const std::vector<Fact>& wrong, const NightlyArguments& arguments) {
  std::string text = "# NO-GO: this machine is not fit for a night, nothing was run\n\n";
  for (const Fact& fact : wrong) {
    log_line("failed\t" + fact.name + ": " + fact.text);
    text += "- **" + std::string(name_of(fact.health)) + "** " + reports::escape(fact.name) + ": " +
            reports::escape(fact.text) + "\n";
  }
  std::cout << text;
  if (!arguments.summary.empty()) nsa::add_to_file(arguments.summary, text);
  return kExitError;
}

Unmet unmet_of(const NightCase& one, const Past& past, bool accepted) {
  if (one.lacking.empty() || accepted) return {one.lacking, false};
  const std::string run = past.could_in(one.history_id);
  if (run.empty()) return {one.lacking, false};
  return {"this machine lost what it had in run " + run + ": " + one.lacking +
              " (nightly --accept-machine: it is meant to be so)",
          true};
}

Pairs asked_by(const NightlyArguments& arguments, const std::string& scenarios) {
  Pairs asked = {{"verb", "nightly"}, {"budget", arguments.budget}, {"scenarios", scenarios}};
  if (!arguments.shard.empty()) asked.emplace_back("shard", arguments.shard);
  if (arguments.cards > 0) asked.emplace_back("cards", std::to_string(arguments.cards));
  if (arguments.accept_machine) asked.emplace_back(kAcceptMachine, "yes");
  return asked;
}

RunPlan plan_night(const NightRequest& request,
                   const NightlyArguments& arguments,
                   const RunOptions& options,
                   const Paths& paths,
                   const Manifest& manifest) {
  RunPlan plan = empty_plan(options, paths);
  const Past past(options.database);
  std::vector<double> seconds;
  std::vector<std::string> cells;
  for (NightCase& one : night_cases(request.files,
                                    scenario_options(options, paths, plan.machine),
                                    plan.machine,
                                    manifest,
                                    request.shard,
                                    [&](const Case&the_case, const std::string&history_id) {
                                      return past.expected_seconds(the_case, history_id);
                                    })) {
    plan.unmet.push_back(unmet_of(one, past, arguments.accept_machine));
    seconds.push_back(past.most_seconds(one.the_case, one.history_id));
    plan.cases.push_back(std::move(one.the_case));
    cells.push_back(one.history_id);
  }
  if (plan.cases.empty()) {
    throw nsa::Error("--shard " + arguments.shard + ": no case is in this part");
  }
  plan.order = Order::as_given;
  const auto budget = std::make_shared<NightBudget>(request.budget, seconds);
  plan.cut = [budget](std::size_t point) { return budget->cut(point); };
  const TimedCells timed(options.database, plan.cases, cells);
  plan.again = [timed](std::size_t point, std::size_t made) { return timed.again(point, made); };
  complete_plan(
      plan, options, paths, manifest, command_words(), asked_by(arguments, request.scenarios));
  return plan;
}

// The runner shows the summary; the report itself is kept beside it.
void hand_over(const Store& store, std::int64_t run_id, const NightlyArguments& arguments) {
  constexpr std::size_t kMostOfSummary = std::size_t{1} << 20;  // of a step, by GitHub's rules
  const auto run = store.run_named(std::to_string(run_id));
  if (!run) return;
  reports::ReportRequest request;
  request.runs = {*run};
  request.check_about = check_about();
  if (!arguments.report.empty()) {
    nsa::write_durably(arguments.report, reports::render_report(store, request));
  }
  if (!arguments.summary.empty()) {
    nsa::add_to_file(arguments.summary, reports::render_summary(store, request, kMostOfSummary));
  }
}

// A night in which a cell became slower has failed, whatever its cases ended with.
int with_times(const Store& store, std::int64_t run_id, int code) {
  const auto run = store.run_named(std::to_string(run_id));
  if (!run || (code != kExitPass && code != kExitInconclusive)) return code;
  const auto cells = reports::judge_times(store, *run, *run, store.cases(run_id));
  return reports::slower_cells(cells).empty() ? code : kExitFailed;
}

int after_the_night(std::int64_t run_id,
                    int code,
                    std::int64_t keep_ms,
                    const NightlyArguments& arguments,
                    const RunOptions& options) {
  try {
    const auto store = Store::open(options.database, false, &log_line);
    if (run_id > 0) hand_over(*store, run_id, arguments);
    code = with_times(*store, run_id, code);
    prune_and_tell(*store, {keep_ms, arguments.tensors, "nightly"}, std::cerr);
  } catch (const nsa::Error& error) {
    log_line(std::string("AFTER THE NIGHT: ") + error.what());
    return code == kExitPass ? kExitIncomplete : code;
  }
  return code;
}

int nightly(const NightlyArguments& arguments) {
  const Paths paths = find_paths();
  RunOptions options;
  options.database = database_path(arguments.database);
  options.out = arguments.out;
  const NightRequest request = read_request(arguments, paths);
  refuse_inside(paths.tree, options.database, "--db");
  refuse_inside(paths.tree, runs_folder(options.database, arguments.out), "--out");
  const NightLock lock(options.database);
  if (!lock.is_mine()) {
    return refuse_machine(
        {{"night", Health::failed, "another night is running on " + options.database}}, arguments);
  }
  if (const std::string earlier = earlier_nights_database(options.database); !earlier.empty()) {
    log_line("this night is compared with those in " + options.database +
             " alone; earlier ones are in " + earlier + ": nsa-harness db merge " + earlier +
             " adds them");
  }
  const Machine machine = look_at_machine();
  const std::vector<Fact> facts = examine(options.database, machine, paths);
  for (const Fact& fact : facts) {
    if (fact.health == Health::warning) log_line("warning\t" + fact.name + ": " + fact.text);
  }
  (void)load_own_manifest(paths);  // nearly every scenario needs the worker
  const Manifest manifest = manifest_to_run(paths);
  const std::vector<Fact> wrong = unfit(facts, arguments, machine, manifest);
  if (!wrong.empty()) return refuse_machine(wrong, arguments);
  std::int64_t run_id = 0;
  Telling telling;
  telling.more = [&](const std::vector<CaseRecord>& cases, std::string&, nlohmann::json&) {
    run_id = cases.front().run_id;
  };
  const int code = run_and_tell(plan_night(request, arguments, options, paths, manifest), telling);
  return after_the_night(run_id, code, request.keep_ms, arguments, options);
}

}  // namespace

Action add_nightly(CLI::App& command) {
  const auto arguments = std::make_shared<NightlyArguments>();
  command.add_option("--budget", arguments->budget, "The most that the cases take: 3h, 2.5, 8m")
      ->capture_default_str();
  command
      .add_option("--scenarios", arguments->scenarios, "A file or folder (default: all shipped)")
      ->type_name("FILE|DIR");
  command.add_option("--shard", arguments->shard, "I/N: only this part, for one of N runners");
  command
      .add_option("--cards",
                  arguments->cards,
                  "How many cards must be usable; with fewer nothing runs, and the exit code is 6")
      ->check(CLI::Range(0, 1024));
  command.add_flag(
      "--accept-machine",
      arguments->accept_machine,
      "Accept that this machine can do less than in earlier nights: it is no error then");
  command.add_option("--db",
                     arguments->database,
                     "The database (default: NSA_HARNESS_DB, or in your data folder)");
  command.add_option(
      "--out", arguments->out, "Folder for the run's folder (default: runs, beside the database)");
  command.add_option("--summary", arguments->summary, "A file that the summary is added to");
  command.add_option("--report", arguments->report, "A file that the report is written to as well");
  command
      .add_option("--retain", arguments->retain, "Drop folders of runs older than this afterwards")
      ->capture_default_str();
  command
      .add_option("--tensors",
                  arguments->tensors,
                  "Of cases that did not pass, keep the tensors of so many of the newest runs")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  return [arguments] { return nightly(*arguments); };
}

}  // namespace harness::cli
