#include "reports/view.h"

#include <algorithm>
#include <map>

#include "harness/store/experiments.h"
#include "nsa/base/error.h"

namespace reports {
namespace {

using harness::Outcome;

constexpr int kFarthest = 20;  // earlier runs that are looked at for "returned"

CaseView make_case(const harness::Store& store,
                   const harness::RunRecord& run,
                   const harness::CaseRecord& record) {
  CaseView view;
  view.record = record;
  view.run = run;
  try {
    view.the_case = harness::case_from_json(record.case_json, "case " + record.label);
  } catch (const std::exception&) {
    view.the_case.reset();  // the report goes on with what the row itself says
  }
  view.history = store.history(record, kFarthest);
  if (view.history.empty()) view.namesake = store.namesake(record);
  return view;
}

// Without the experiments of diagnoses, which are told by what they found.
std::vector<harness::CaseRecord> cases_of(const harness::Store& store,
                                          const harness::RunRecord& run) {
  std::vector<harness::CaseRecord> cases = store.cases(run.id);
  std::erase_if(cases, [](const auto& record) { return harness::is_experiment(record); });
  return cases;
}

DecidedNight decided(const harness::Store& store, const Night& night) {
  std::vector<harness::CaseRecord> all;
  for (const harness::RunRecord& run : night.runs) {
    const std::vector<harness::CaseRecord> cases = cases_of(store, run);
    all.insert(all.end(), cases.begin(), cases.end());
  }
  DecidedNight result{night.name, "", night.runs, all};
  if (night.runs.size() > 1) {
    result.cases = newest_of_each_cell(all);
    result.runs = runs_that_count(night.runs, all, result.cases);
  }
  result.decision = decision(result.runs, result.cases);
  return result;
}

// With one shard, whatever else was run in this night counts as well; with several, each has its own cases.
std::vector<NightBefore> nightly_of(const harness::Store& store, const DecidedNight& night) {
  std::map<std::string, harness::RunRecord> newest;  // by shard
  std::map<std::string, harness::RunRecord> oldest;
  for (const harness::RunRecord& run : night.runs) {
    if (!is_nightly(run)) continue;
    newest[run.option("shard")] = run;
    oldest.try_emplace(run.option("shard"), run);
  }
  std::vector<NightBefore> all;
  for (const auto& [shard, run] : newest) {
    // The previous night ended before this one began: what was run again in the morning belongs to this one.
    NightBefore one{run, earlier_nights(store, oldest.at(shard)), {}};
    std::vector<harness::CaseRecord> now = night.cases;
    if (newest.size() > 1) {
      std::erase_if(now, [&](const auto& record) { return record.run_id != one.run.id; });
    }
    if (one.earlier.previous) {
      one.comparison = compare_runs(store, *one.earlier.previous, one.earlier.cases, run, now);
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

Outcome CaseView::outcome() const {
  return harness::outcome_of(record);
}

std::string CaseView::reason() const {
  if (!record.skip_reason.empty()) return record.skip_reason;
  return record.judgement ? record.judgement->reason : "never judged";
}

std::string CaseView::planted() const {
  return the_case && the_case->scenario.fault ? the_case->scenario.fault->name : "";
}

bool CaseView::expects() const {
  return the_case && the_case->scenario.expect.has_value();
}

ReportView make_view(const harness::Store& store, const ReportRequest& request) {
  if (request.runs.empty()) throw nsa::Error("a report needs at least one run");
  ReportView view{request, {}, "", {}, {}, {}, {}, {}, {}};
  const DecidedNight night = decided(store, {request.night, request.runs});
  view.request.runs = night.runs;
  view.decision = night.decision;
  view.outcomes = harness::outcomes_that_count(night.cases);
  for (const harness::CaseRecord& record : night.cases) {
    const auto run = std::find_if(night.runs.begin(), night.runs.end(), [&](const auto& one) {
      return one.id == record.run_id;
    });
    view.cases.push_back(make_case(store, *run, record));
  }
  for (const CaseView& one : view.cases) {
    if (one.the_case && harness::is_trial(*one.the_case)) view.trials.push_back(one.record);
  }
  view.bisections = harness::bisections_of(view.trials);
  for (const harness::RunRecord& run : night.runs) {
    for (auto& one : harness::diagnoses_of(run, store.cases(run.id))) {
      view.diagnoses.push_back(std::move(one));
    }
  }
  for (const Night& earlier : request.earlier) view.nights.push_back(decided(store, earlier));
  if (!view.nights.empty()) view.nights.push_back(night);
  view.nightly = nightly_of(store, night);
  const bool slower = std::any_of(view.nightly.begin(), view.nightly.end(), [](const auto& one) {
    return !slower_cells(one.comparison.times).empty();
  });
  if (slower) view.decision = "NO-GO";
  return view;
}

}  // namespace reports
