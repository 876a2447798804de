#include "harness/store/rebuild.h"

#include <filesystem>
#include <vector>

#include "harness/run/record/run_folder.h"
#include "harness/store/case_evidence.h"
#include "harness/store/run_files.h"
#include "harness/store/verdict_log.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

WholeCase read_case(const RunRecord& run, const CaseRecord& planned) {
  WholeCase whole;
  whole.record = planned;
  const std::string folder = case_folder(run.folder, planned.folder);
  for (LoggedJudgement& logged : read_verdict_log(folder)) {
    whole.record.started_ms = logged.times.started_ms;
    whole.record.seconds = logged.times.seconds;
    whole.judgements.push_back(std::move(logged.judged));
  }
  if (!has_event_log(folder)) return whole;
  const RecordedCase recorded = read_recorded(run, planned);
  if (whole.judgements.empty()) {  // when it really began is not in the folder
    whole.record.started_ms = run.started_ms;
    whole.record.seconds = recorded.seconds;
  }
  whole.record.digest = digest_of(recorded.evidence);
  return whole;
}

}  // namespace

std::int64_t rebuild_run(const std::string& run_folder, Store& store) {
  std::error_code error;
  const std::string folder = std::filesystem::absolute(run_folder, error).lexically_normal();
  const PlannedRun planned = read_run_file(folder);
  RunRecord run = planned.run;
  if (store.run_named(run.name)) {
    throw nsa::Error(folder + ": the database has this run already: " + run.name);
  }
  std::vector<std::string> refused;
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (const nsa::Error& why) {
      refused.emplace_back(why.what());
    }
  };
  attempt([&] { read_end_file(run); });
  std::vector<WholeCase> cases;
  for (const CaseRecord& record : planned.cases) {
    attempt([&] { cases.push_back(read_case(run, record)); });
  }
  if (!refused.empty()) throw nsa::Error("nothing was added: " + nsa::join(refused, "; "));
  return store.add_run(run, cases);
}

}  // namespace harness
