// The object of `run --json` (SPEC 11). NaN and infinities are strings, as everywhere.
#include "harness/core/finding.h"
#include "reports/report.h"

namespace reports {
namespace {

using nlohmann::json;

json finding_json(const harness::Finding& finding) {
  return {{"code", finding.code},
          {"site", finding.site},
          {"role", harness::name_of(finding.role)},
          {"status", harness::name_of(finding.status)},
          {"statement", finding.statement}};
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
                {"seconds", harness::Real(record.seconds)},
                {"findings", json::array()},
                {"verdicts", json::array()},
                {"metrics", json::object()}};
  add_judgement(record, entry);
  for (const auto& [name, value] : record.metrics) entry["metrics"][name] = harness::Real(value);
  return entry;
}

}  // namespace

json render_json(const harness::Store& store,
                 const harness::RunRecord& run,
                 const std::string& report) {
  json cases = json::array();
  for (const harness::CaseRecord& record : store.cases(run.id)) cases.push_back(case_json(record));
  return {
      {"run", run.name}, {"exit", run.exit_code}, {"report", report}, {"cases", std::move(cases)}};
}

}  // namespace reports
