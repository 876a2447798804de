#include "harness/store/rebuild.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "harness/run/record/run_folder.h"
#include "harness/scenario/exit_code.h"
#include "harness/store/bisection.h"
#include "harness/store/case_evidence.h"
#include "harness/store/run_files.h"
#include "harness/store/verdict_log.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

// What a run binds names its events: a line that names none was written by an older version, for another run.
void refuse_unbound(const std::string& folder, const std::vector<LoggedJudgement>& judgements) {
  const auto unbound = std::ranges::find_if(
      judgements, [](const LoggedJudgement& logged) { return !logged.judged.events_hash; });
  if (unbound == judgements.end()) return;
  const nsa::Location line{folder + "/" + kVerdictsFile,
                           static_cast<int>(unbound - judgements.begin()) + 1};
  throw nsa::NotAsRecorded(line.text() + ": a judgement that does not say what it is of");
}

WholeCase read_case(const PlannedRun& of, const CaseRecord& planned) {
  const RunRecord& run = of.run;
  WholeCase whole;
  whole.record = planned;
  const std::string folder = case_folder(run.folder, planned.folder);
  std::vector<LoggedJudgement> judgements = read_verdict_log(run, planned);
  if (of.binds) refuse_unbound(folder, judgements);
  const bool has_events = has_event_log(folder);
  if (!has_events) refuse_other_events(run, planned, judgements, "");
  for (LoggedJudgement& logged : judgements) {
    whole.record.started_ms = logged.times.started_ms;
    whole.record.seconds = logged.times.seconds;
    whole.judgements.push_back(std::move(logged.judged));
  }
  if (!has_events) return whole;
  const RecordedCase recorded = read_recorded(run, planned);
  if (whole.judgements.empty()) {  // when it really began is not in the folder
    whole.record.started_ms = run.started_ms;
    whole.record.seconds = recorded.seconds;
  }
  whole.record.digest = digest_of(recorded.evidence);
  return whole;
}

// How the run ended follows from the first judgement of each case: later ones were made after the end.
void refuse_other_outcomes(const RunRecord& run, const std::vector<WholeCase>& cases) {
  const std::string end = run.folder + "/" + kEndFile;
  std::vector<CaseRecord> records;
  for (const WholeCase& whole : cases) {
    records.push_back(whole.record);
    if (!whole.judgements.empty()) {
      records.back().judgement = whole.judgements.front().judgement;
    } else if (run.complete && whole.record.skip_reason.empty()) {
      throw nsa::NotAsRecorded(end + ": says that the run is complete, but " + whole.record.folder +
                               " has no judgement");
    }
  }
  const int wanted = exit_code(outcomes_that_count(records), !run.complete);
  if (run.exit_code == wanted) return;
  throw nsa::NotAsRecorded(end + ": found exit code " + std::to_string(run.exit_code) +
                           ", but the judgements of its cases give " + std::to_string(wanted));
}

}  // namespace

std::int64_t rebuild_run(const std::string& run_folder, Store& store) {
  std::error_code error;
  const std::string folder = std::filesystem::absolute(run_folder, error).lexically_normal();
  PlannedRun planned = read_run_file(folder);
  RunRecord& run = planned.run;
  if (store.run_named(run.name)) {
    throw nsa::Error(folder + ": the database has this run already: " + run.name);
  }
  std::vector<std::string> refused;
  bool altered = false;
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (const nsa::Error& why) {
      refused.emplace_back(why.what());
      altered = altered || exit_code(why) == kExitError;
    }
  };
  attempt([&] { read_end_file(planned); });
  std::vector<WholeCase> cases;
  for (const CaseRecord& record : planned.cases) {
    attempt([&] { cases.push_back(read_case(planned, record)); });
  }
  if (refused.empty() && run.exit_code >= 0) {
    attempt([&] { refuse_other_outcomes(run, cases); });
  }
  if (!refused.empty()) {
    const std::string why = "nothing was added: " + nsa::join(refused, "; ");
    if (altered) throw nsa::NotAsRecorded(why);
    throw nsa::Error(why);
  }
  return store.add_run(run, cases);
}

}  // namespace harness
