#include <algorithm>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/checks/list.h"
#include "harness/cli/find_run.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/run/build_info.h"
#include "harness/run/clock.h"
#include "harness/run/record/run_folder.h"
#include "harness/scenario/exit_code.h"
#include "harness/store/bisection.h"
#include "harness/store/case_evidence.h"
#include "harness/store/run_files.h"
#include "harness/store/verdict_log.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"
#include "reports/report.h"

namespace harness::cli {
namespace {

struct JudgeArguments {
  std::string run = "last";
  std::string database;
  bool json = false;
};

// A case that was judged again, and why that judgement does not report; "" where it does.
struct Again {
  StoredJudgement judged;
  std::string lacking;
};

// What was recorded of it is all gone: dropped, moved, or nothing ever ran.
bool has_evidence(const CaseRecord& record, const RunRecord& run) {
  return record.skip_reason.empty() && record.started_ms > 0 &&
         has_event_log(case_folder(run.folder, record.folder));
}

std::string lacking_text(const Evidence& evidence) {
  const std::vector<std::string> gone = files_gone(evidence);
  if (!gone.empty()) {
    return std::to_string(gone.size()) + (gone.size() == 1 ? " file" : " files") +
           " of its ranks are gone (pruned?)";
  }
  return evidence.hashes->any_altered() ? "files of its ranks are not what was recorded" : "";
}

Again judge_again(Store& store, const CaseRecord& record, const RunRecord& run) {
  const RecordedCase recorded = read_recorded(run, record);
  Again again;
  again.judged.judgement = judge(recorded.evidence, all_checks());
  again.judged.judged_ms = wall_clock_ms();
  again.judged.source_hash = built_source_hash();
  again.judged.events_hash = recorded.events_hash;
  again.lacking = lacking_text(recorded.evidence);
  again.judged.whole = again.lacking.empty();
  const double seconds = record.digest.recorded ? record.seconds : recorded.seconds;
  log_judgement(run, record, {{record.started_ms, seconds}, again.judged});
  if (!record.digest.recorded) {  // the run was killed before it could
    store.finish_case(record.id, seconds, digest_of(recorded.evidence));
  }
  store.add_judgement(record.id, again.judged);
  return again;
}

// The judgement that reports from now on.
Outcome reporting(const CaseRecord& record, const Again& again) {
  const bool stays = !again.judged.whole && record.judgement;
  return stays ? record.judgement->outcome : again.judged.judgement.outcome;
}

std::string line_of(const CaseRecord& record, const Again& again) {
  const Judgement& judged = again.judged.judgement;
  const bool stays = !again.judged.whole && record.judgement;
  const std::string reason = stays ? "its earlier judgement stays, since " + again.lacking +
                                         "; without them: " + name_of(judged.outcome) + ", " +
                                         judged.reason
                                   : judged.reason;
  return outcome_line(name_of(reporting(record, again)), record.label, record.seconds, reason);
}

std::string line_without_evidence(const CaseRecord& record, const RunRecord& run) {
  const std::string why = !record.skip_reason.empty() ? record.skip_reason
                          : run.pruned_ms > 0 ? "its earlier judgement stays: the run's folder was "
                                                "dropped (nsa-harness db prune)"
                          : record.judgement  ? "its earlier judgement stays: its folder holds no "
                                                "record"
                                              : "nothing was recorded";
  return outcome_line(name_of(outcome_of(record)), record.label, record.seconds, why);
}

nlohmann::json again_json(const Again& again) {
  return {{"outcome", name_of(again.judged.judgement.outcome)},
          {"reason", again.judged.judgement.reason},
          {"whole", again.judged.whole},
          {"lacking", again.lacking}};
}

int judge_run(const JudgeArguments& arguments) {
  const auto store = Store::open(database_path(arguments.database), false, &log_line);
  const auto run = find_run(*store, arguments.run);
  if (!run) return kExitNothing;
  if (run->ended_ms == 0) {
    log_line(
        "run " + run->name +
        " has not ended: it runs still, and is judged as far as it is recorded, or it was killed");
  }
  auto judged = nlohmann::json::object();  // by label
  int refused = kExitPass;
  for (const CaseRecord& record : store->cases(run->id)) {
    try {
      std::string line;
      if (has_evidence(record, *run)) {
        const Again again = judge_again(*store, record, *run);
        judged[record.label] = again_json(again);
        line = line_of(record, again);
      } else {
        line = line_without_evidence(record, *run);
      }
      if (!arguments.json) std::cout << line << "\n";
    } catch (const nsa::Error& error) {
      const bool altered = exit_code(error) == kExitError;
      refused = std::max(refused, altered ? kExitError : kExitIncomplete);
      log_line("CANNOT JUDGE " + record.label + ": " + error.what());
    }
  }
  const std::vector<CaseRecord> records = store->cases(run->id);
  const bool incomplete = !run->complete || refused == kExitIncomplete;
  const int code = refused == kExitError
                       ? kExitError
                       : harness::exit_code(outcomes_that_count(records), incomplete);
  if (arguments.json) {
    nlohmann::json object = reports::render_json(*store, *run, run->folder + "/report.md");
    object["exit"] = code;
    for (nlohmann::json& entry : object["cases"]) {
      const auto again = judged.find(entry["case"].get<std::string>());
      entry["judged_again"] = again == judged.end() ? nlohmann::json() : *again;
    }
    std::cout << object.dump() << "\n";
  }
  return code;
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
