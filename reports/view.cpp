#include "reports/view.h"

#include <algorithm>
#include <map>
#include <set>

#include "harness/store/experiments.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

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
  } catch (const std::exception& error) {
    view.the_case.reset();  // the report goes on with what the row itself says
    view.unreadable = error.what();
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

using NightKey = std::vector<std::string>;  // shard, and each option of the plan

NightKey key_of(const harness::RunRecord& run) {
  NightKey key = {run.option("shard")};
  for (const char* option : kPlanOptions) key.push_back(run.option(option));
  return key;
}

// The shard, and what of the plan differs among the night's.
std::string name_among(const NightKey& key, const std::map<NightKey, harness::RunRecord>& all) {
  std::vector<std::string> parts;
  if (!key.front().empty()) parts.push_back("shard " + key.front());
  for (std::size_t i = 0; i < kPlanOptions.size(); ++i) {
    const std::string& mine = key.at(i + 1);
    const bool differs = std::any_of(
        all.begin(), all.end(), [&](const auto& one) { return one.first.at(i + 1) != mine; });
    if (differs) parts.push_back(std::string(kPlanOptions.at(i)) + " " + mine);
  }
  return nsa::join(parts);
}

// Of the night's cases those that the run planned, as the newest run of the night judged them.
std::vector<harness::CaseRecord> planned_in(const std::vector<harness::CaseRecord>& of_night,
                                            const std::vector<harness::CaseRecord>& of_run) {
  std::set<std::string> planned;
  for (const harness::CaseRecord& record : of_run) planned.insert(record.history_id);
  std::vector<harness::CaseRecord> kept = of_night;
  std::erase_if(kept, [&](const auto& one) { return !planned.contains(one.history_id); });
  return kept;
}

// With one nightly run, whatever else was run in this night counts as well; with several (shards, or one with other scenarios that
// somebody started by hand), each has the cases that it planned.
std::vector<NightBefore> nightly_of(const harness::Store& store, const DecidedNight& night) {
  std::map<NightKey, harness::RunRecord> newest;
  std::map<NightKey, harness::RunRecord> oldest;
  for (const harness::RunRecord& run : night.runs) {
    if (!is_nightly(run)) continue;
    newest[key_of(run)] = run;
    oldest.try_emplace(key_of(run), run);
  }
  std::vector<NightBefore> all;
  for (const auto& [key, run] : newest) {
    // The previous night ended before this one began: what was run again in the morning belongs to this one.
    NightBefore one{run, name_among(key, newest), earlier_nights(store, oldest.at(key)), {}};
    const std::vector<harness::CaseRecord> now =
        newest.size() > 1 ? planned_in(night.cases, cases_of(store, run)) : night.cases;
    if (one.earlier.previous) {
      one.comparison = compare_runs(store, *one.earlier.previous, one.earlier.cases, run, now);
    }
    all.push_back(std::move(one));
  }
  return all;
}

// Of what was not decided only the first cases are told in full: where there are many, it is one reason over and over. All have
// their row with the reason, and one with a finding is told in full.
void shorten_undecided(std::vector<CaseView>& cases) {
  constexpr int kMostInFull = 20;
  int in_full = 0;
  for (CaseView& one : cases) {
    const bool trial = one.the_case && harness::is_trial(*one.the_case);
    if (trial || one.outcome() != Outcome::inconclusive || !one.record.judgement) continue;
    one.in_brief = one.record.judgement->findings.empty() && ++in_full > kMostInFull;
  }
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

bool CaseView::nothing_planted() const {
  return the_case && planted().empty();
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
  view.unasked = not_fully_asked(night.cases);
  for (const harness::CaseRecord& record : night.cases) {
    const auto run = std::find_if(night.runs.begin(), night.runs.end(), [&](const auto& one) {
      return one.id == record.run_id;
    });
    view.cases.push_back(make_case(store, *run, record));
  }
  shorten_undecided(view.cases);
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
