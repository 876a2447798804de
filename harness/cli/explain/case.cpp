#include "harness/cli/explain/case.h"

#include <algorithm>

#include "harness/cli/explain/lines.h"
#include "harness/judge/wording/find_wording.h"
#include "nsa/base/text.h"
#include "nsa/base/yaml.h"

namespace harness::cli {
namespace {

std::string measured_text(const Measured& measured) {
  std::string text = measured.name + " " + nsa::to_text(measured.value, 6);
  return measured.limit ? text + " (limit " + nsa::to_text(*measured.limit, 6) + ")" : text;
}

const CheckResult* verdict_of(const Judgement& judgement, const std::string& check) {
  const auto at = std::find_if(judgement.verdicts.begin(),
                               judgement.verdicts.end(),
                               [&](const CheckResult& result) { return result.check == check; });
  return at == judgement.verdicts.end() ? nullptr : &*at;
}

void add_evidence(const Judgement& judgement, const Finding& finding, Lines& lines) {
  const CheckResult* verdict = verdict_of(judgement, finding.check);
  if (verdict != nullptr) lines.add("check", finding.check);
  for (const auto& [name, text] : details_of(finding)) lines.add("evidence", name + ": " + text);
  if (verdict == nullptr) return;
  std::size_t within = 0;
  for (const Measured& measured : verdict->measured) {
    const bool kept = measured.limit && measured.value <= *measured.limit;
    if (kept) ++within;
    if (!kept) lines.add("evidence", measured_text(measured));
  }
  if (within == 1) lines.add("evidence", "1 other value is within its limit");
  if (within > 1) {
    lines.add("evidence", std::to_string(within) + " other values are within their limits");
  }
}

std::string with_site(const NotJudged& lacking) {
  return lacking.check + ": " + lacking.what;
}

void add_finding(const Judgement& judgement, const Finding& finding, Lines& lines) {
  lines.gap();
  lines.title(std::to_string(finding.number) + ". " + title_of(finding.code, finding.site));
  std::string role = name_of(finding.role);
  if (finding.follows > 0) {
    role += ", follows from " + std::to_string(finding.follows) + " (" + finding.tie + ")";
  }
  lines.add("role", role + "; " + name_of(finding.status));
  lines.add("what happened", finding.statement);
  add_evidence(judgement, finding, lines);
  if (!finding.ruled_out.empty()) lines.add("ruled out", finding.ruled_out);
  if (!finding.next_action.empty()) lines.add("next action", finding.next_action);
  for (const NotJudged& lacking : finding.not_judged) lines.add("not judged", with_site(lacking));
}

}  // namespace

CaseRecord find_case(const Store& store, const RunRecord& run, const std::string& words) {
  std::vector<CaseRecord> records = store.cases(run.id);
  const auto number = nsa::parse_int(words);
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const bool meant =
        records[i].label == words || (number && *number == static_cast<std::int64_t>(i) + 1);
    if (meant) return std::move(records[i]);
    labels.push_back(records[i].label);
  }
  nsa::throw_unknown_name({}, "case of run " + run.name, words, labels);
}

std::string case_text(const CaseRecord& record) {
  const Judgement& judgement = *record.judgement;
  Lines lines;
  lines.title(record.label + ": " + name_of(judgement.outcome));
  lines.add("reason", judgement.reason);
  for (const Finding& finding : judgement.findings) add_finding(judgement, finding, lines);
  for (const CheckResult& result : judgement.verdicts) {
    if (result.verdict != Verdict::inconclusive) continue;
    lines.gap();
    lines.add("not judged", result.check + ": " + result.reason);
  }
  return lines.text();
}

nlohmann::json case_json(const CaseRecord& record) {
  const Judgement& judgement = *record.judgement;
  nlohmann::json findings = nlohmann::json::array();
  for (const Finding& finding : judgement.findings) {
    nlohmann::json entry = finding;
    const CheckResult* verdict = verdict_of(judgement, finding.check);
    entry["measured"] =
        verdict == nullptr ? nlohmann::json::array() : nlohmann::json(verdict->measured);
    findings.push_back(std::move(entry));
  }
  return {{"case", record.label},
          {"outcome", name_of(judgement.outcome)},
          {"reason", judgement.reason},
          {"findings", std::move(findings)}};
}

}  // namespace harness::cli
