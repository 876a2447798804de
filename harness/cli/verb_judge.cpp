#include <chrono>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/checks/list.h"
#include "harness/cli/find_run.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/core/clock.h"
#include "harness/core/exit_code.h"
#include "harness/store/bisection.h"
#include "nsa/base/error.h"
#include "reports/report.h"

namespace harness::cli {
namespace {

struct JudgeArguments {
  std::string run = "last";
  std::string database;
  bool json = false;
};

// A case that was planned and never started has nothing to judge.
bool has_evidence(const CaseRecord& record) {
  return record.skip_reason.empty() && record.started_ms > 0;
}

Judgement judge_again(Store& store, const CaseRecord& record, const RunRecord& run) {
  const Judgement judgement = judge(store.evidence(record, run), all_checks());
  store.add_judgement(record.id, judgement, wall_clock_ms());
  return judgement;
}

int judge_run(const JudgeArguments& arguments) {
  const auto store = Store::open(database_path(arguments.database), false);
  const auto run = find_run(*store, arguments.run);
  if (!run) return kExitNothing;
  std::vector<CaseRecord> records = store->cases(run->id);
  for (CaseRecord& record : records) {
    if (!has_evidence(record)) {
      record.skip_reason = "nothing was recorded";
      continue;
    }
    const Judgement judgement = judge_again(*store, record, *run);
    record.judgement = judgement;
    const std::string line =
        outcome_line(name_of(judgement.outcome), record.label, record.seconds, judgement.reason);
    if (!arguments.json) std::cout << line << "\n";
  }
  if (arguments.json) {
    std::cout << reports::render_json(*store, *run, run->folder + "/report.md").dump() << "\n";
  }
  return harness::exit_code(outcomes_that_count(records), !run->complete);
}

}  // namespace

Action add_judge(CLI::App& command) {
  const auto arguments = std::make_shared<JudgeArguments>();
  command.add_option("run", arguments->run, "A run's name or number, or last")
      ->capture_default_str();
  command.add_option("--db",
                     arguments->database,
                     "The database (default: NSA_HARNESS_DB, or in your data folder)");
  command.add_flag("--json", arguments->json, "Print one object instead of lines");
  return [arguments] { return judge_run(*arguments); };
}

}  // namespace harness::cli
