#include "reports/view.h"

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
  ReportView view{request, {}, "", {}, {}, {}};
  std::vector<harness::CaseRecord> records;
  for (const harness::RunRecord& run : request.runs) {
    for (const harness::CaseRecord& record : store.cases(run.id)) {
      view.cases.push_back(make_case(store, run, record));
      records.push_back(record);
    }
  }
  for (const CaseView& one : view.cases) {
    if (one.the_case && harness::is_trial(*one.the_case)) view.trials.push_back(one.record);
  }
  view.bisections = harness::bisections_of(view.trials);
  view.decision = decision(request.runs, records);
  view.outcomes = harness::outcomes_that_count(records);
  return view;
}

}  // namespace reports
