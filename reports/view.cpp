#include "reports/view.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "nsa/base/error.h"

namespace reports {
namespace {

using harness::Evidence;
using harness::Outcome;

void take_arrivals(const Evidence& evidence, CaseView& view) {
  std::map<int, std::map<std::string, bool>> once;  // rank -> parameter -> in every step
  std::map<int, std::set<std::int64_t>> steps;
  for (const auto& row : evidence.gradients) {
    if (row.process < 0) continue;
    const harness::Gradient& gradient = row.row;
    steps[row.process].insert(gradient.step);
    const bool good = gradient.reachable && gradient.ready_count == 1 && gradient.state != "none";
    const auto [at, is_new] = once[row.process].try_emplace(gradient.param, good);
    at->second = at->second && good;
  }
  for (const auto& [rank, params] : once) {
    Arrivals arrivals;
    arrivals.rank = rank;
    arrivals.steps = static_cast<std::int64_t>(steps[rank].size());
    arrivals.parameters = static_cast<std::int64_t>(params.size());
    for (const auto& [param, good] : params) {
      if (good) {
        ++arrivals.once;
      } else {
        arrivals.others.push_back(param);
      }
    }
    view.arrivals.push_back(std::move(arrivals));
  }
}

// From the beginning of each phase to that of the next one of the same process.
void take_phases(const Evidence& evidence, CaseView& view) {
  std::map<int, std::vector<std::pair<std::int64_t, std::string>>> begins;
  for (const auto& row : evidence.phases) begins[row.process].emplace_back(row.t_ms, row.row.phase);
  for (const auto& row : evidence.done) begins[row.process].emplace_back(row.t_ms, "");
  for (auto& [process, list] : begins) {
    std::stable_sort(
        list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<PhaseTime> total;  // in the order in which phases first began
    for (std::size_t i = 0; i + 1 < list.size(); ++i) {
      const std::string& phase = list[i].second;
      if (phase.empty()) continue;
      auto at = std::find_if(
          total.begin(), total.end(), [&](const PhaseTime& known) { return known.phase == phase; });
      if (at == total.end()) at = total.insert(total.end(), {process, phase, 0});
      at->ms += list[i + 1].first - list[i].first;
    }
    view.phases.insert(view.phases.end(), total.begin(), total.end());
  }
  // Ranks first, then the twin.
  std::stable_sort(
      view.phases.begin(), view.phases.end(), [](const PhaseTime& a, const PhaseTime& b) {
        return (a.process < 0) < (b.process < 0);
      });
}

void take_files(const Evidence& evidence, CaseView& view) {
  for (const auto& row : evidence.artefacts) {
    view.files.push_back({row.process, row.row.path, row.row.bytes, row.row.hash});
  }
  std::sort(view.files.begin(), view.files.end(), [](const FileRow& a, const FileRow& b) {
    return a.path < b.path;
  });
}

void take_series(const Evidence& evidence, CaseView& view) {
  std::map<std::tuple<std::string, int, std::int64_t>, double> values;
  for (const auto& row : evidence.samples) {
    if (row.process >= 0) values[{row.row.metric, row.process, row.row.step}] = row.row.value.value;
  }
  for (const auto& [key, value] : values) {
    view.series[std::get<0>(key)][std::get<1>(key)].push_back(value);
  }
}

void take_evidence(const Evidence& evidence, CaseView& view) {
  for (const auto& row : evidence.hellos) {
    if (row.process != 0) continue;
    view.device = row.row.device;
    view.backend = row.row.backend;
    view.torch_version = row.row.torch_version;
  }
  for (const auto& row : evidence.facts) {
    if (row.process == 0 && row.row.name == "parameters") view.parameters = row.row.value;
  }
  take_arrivals(evidence, view);
  take_phases(evidence, view);
  take_files(evidence, view);
  take_series(evidence, view);
}

bool is_bad(const harness::CaseRecord& record) {
  return record.judgement && record.judgement->outcome != Outcome::pass;
}

void take_history(const harness::Store& store, CaseView& view) {
  view.previous = store.previous(view.record, view.run.id);
  constexpr int kFarthest = 20;  // judged runs that are looked at for "returned"
  std::optional<harness::CaseRecord> older = view.previous;
  for (int i = 0; i < kFarthest && older && !view.failed_earlier; ++i) {
    older = store.previous(*older, older->run_id);
    view.failed_earlier = older && is_bad(*older);
  }
}

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
  take_history(store, view);
  if (!record.skip_reason.empty()) return view;
  try {
    take_evidence(store.evidence(record, run), view);
  } catch (const nsa::Error& error) {
    view.unreadable = error.what();
  }
  return view;
}

// Of the last run before these: what it ran and these did not.
std::vector<NotRun> cases_not_run(const harness::Store& store, const ReportView& view) {
  const harness::RunRecord& first = view.request.runs.front();
  const harness::RunRecord* before = nullptr;
  const auto runs = store.runs(std::numeric_limits<std::int64_t>::min(), first.started_ms);
  for (const harness::RunRecord& run : runs) {
    if (run.id != first.id && (before == nullptr || run.started_ms >= before->started_ms))
      before = &run;
  }
  if (before == nullptr) return {};
  std::map<std::string, std::string> scenario_of;  // by label
  for (const harness::CaseRecord& record : store.cases(before->id)) {
    if (record.skip_reason.empty()) scenario_of.emplace(record.label, record.scenario);
  }
  for (const CaseView& now : view.cases) scenario_of.erase(now.record.label);
  std::vector<NotRun> cases;
  cases.reserve(scenario_of.size());
  for (const auto& [label, scenario] : scenario_of) cases.push_back({scenario, label});
  return cases;
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
  ReportView view{request, {}, {}, "", {}, {}};
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
  view.not_run = cases_not_run(store, view);
  view.decision = decision(request.runs, records);
  return view;
}

}  // namespace reports
