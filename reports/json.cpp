// The object of `run --json`. NaN and infinities are strings, as everywhere.
#include "harness/diagnose/recorded.h"
#include "harness/judge/finding.h"
#include "harness/store/bisection.h"
#include "harness/store/experiments.h"
#include "nsa/base/text.h"
#include "reports/report.h"

namespace reports {
namespace {

using nlohmann::json;

json finding_json(const harness::Finding& finding) {
  json entry = {{"code", finding.code},
                {"site", finding.site},
                {"check", finding.check},
                {"role", harness::name_of(finding.role)},
                {"status", harness::name_of(finding.status)},
                {"statement", finding.statement}};
  if (!finding.not_judged.empty()) entry["not_judged"] = finding.not_judged;
  return entry;
}

json verdict_json(const harness::CheckResult& result) {
  json measured = json::array();
  for (const harness::Measured& value : result.measured) {
    json entry = {{"name", value.name}, {"value", value.value}, {"limit", nullptr}};
    if (value.limit) entry["limit"] = *value.limit;
    measured.push_back(std::move(entry));
  }
  return {{"check", result.check},
          {"verdict", harness::name_of(result.verdict)},
          {"reason", result.reason},
          {"measured", std::move(measured)}};
}

void add_judgement(const harness::CaseRecord& record, json& entry) {
  if (!record.skip_reason.empty()) {
    entry["outcome"] = harness::name_of(harness::Outcome::skip);
    entry["reason"] = record.skip_reason;
  } else if (record.judgement) {
    entry["outcome"] = harness::name_of(record.judgement->outcome);
    entry["reason"] = record.judgement->reason;
    for (const auto& finding : record.judgement->findings) {
      entry["findings"].push_back(finding_json(finding));
    }
    for (const auto& result : record.judgement->verdicts) {
      entry["verdicts"].push_back(verdict_json(result));
    }
  } else {
    entry["outcome"] = harness::name_of(harness::Outcome::inconclusive);
    entry["reason"] = "never judged";
  }
}

json case_json(const harness::CaseRecord& record) {
  json entry = {{"scenario", record.scenario},
                {"case", record.label},
                {"profile", record.profile},
                {"seconds", harness::Real(record.seconds)},
                {"findings", json::array()},
                {"verdicts", json::array()},
                {"metrics", json::object()}};
  add_judgement(record, entry);
  for (const auto& [name, value] : record.digest.metrics)
    entry["metrics"][name] = harness::Real(value);
  return entry;
}

json bisect_json(const harness::Bisection& bisection) {
  json minimal = json::array();
  for (const std::string& value : bisection.progress.minimal) {
    const auto number = nsa::parse_int(value);
    minimal.push_back(number ? json(*number) : json(value));
  }
  json object = {{"case", bisection.label},
                 {"over", bisection.over},
                 {"minimal", std::move(minimal)},
                 {"trials", bisection.trials.size()},
                 {"conclusion", bisection.progress.conclusion}};
  if (bisection.expect) object["missed"] = bisection.missed;
  return object;
}

}  // namespace

json render_json(const harness::Store& store,
                 const harness::RunRecord& run,
                 const std::string& report) {
  const std::vector<harness::CaseRecord> records = store.cases(run.id);
  json cases = json::array();
  for (const harness::CaseRecord& record : records) {
    if (!harness::is_experiment(record)) cases.push_back(case_json(record));
  }
  json object = {
      {"run", run.name}, {"exit", run.exit_code}, {"report", report}, {"cases", std::move(cases)}};
  json bisections = json::array();
  for (const auto& bisection : harness::bisections_of(records)) {
    bisections.push_back(bisect_json(bisection));
  }
  for (const auto& one : harness::diagnoses_of(run, records)) {
    object["diagnoses"].push_back(harness::to_object(one));
  }
  if (bisections.size() == 1) object["bisect"] = bisections.front();
  if (bisections.size() > 1) object["bisect"] = std::move(bisections);
  return object;
}

}  // namespace reports
