#include "harness/diagnose/recorded.h"

#include <algorithm>
#include <map>

#include "harness/scenario/experiment.h"
#include "harness/store/experiments.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nlohmann::json;

AskedDiagnosis read_asked(const std::string& text) {
  AskedDiagnosis asked;
  const json says = json::parse(text, nullptr, false);
  if (!says.is_object() || !says.contains("causes") || !says.at("causes").is_array()) return asked;
  asked.run = says.value("run", "");
  asked.label = says.value("label", "");
  for (const json& one : says.at("causes")) {
    Cause cause;
    cause.code = one.value("code", "");
    cause.statement = one.value("statement", "");
    if (one.contains("site")) cause.site = one.at("site").get<Site>();
    asked.causes.push_back(std::move(cause));
  }
  return asked;
}

std::optional<AskedDiagnosis> asked_for(const Pairs& command, const std::string& label) {
  bool of_all = false;
  for (const auto& [key, value] : command) {
    if (key != kDiagnoseOption) continue;
    of_all = of_all || value.empty();
    if (value.empty()) continue;
    AskedDiagnosis asked = read_asked(value);
    if (asked.label == label && !asked.causes.empty()) return asked;
  }
  return of_all ? std::optional(AskedDiagnosis()) : std::nullopt;
}

Ran ran_of(const CaseRecord& record, const std::string& name) {
  Ran ran;
  ran.name = name;
  ran.seconds = record.seconds;
  if (!record.judgement) return ran;
  ran.outcome = record.judgement->outcome;
  ran.causes = causes_of(*record.judgement);
  ran.reason = record.judgement->reason;
  return ran;
}

struct Found {
  Diagnosis diagnosis;
  std::string failed_in;
};

std::optional<Found> find(const Pairs& command, std::span<const CaseRecord* const> ran) {
  const CaseRecord& record = *ran.front();
  const auto asked = asked_for(command, record.label);
  if (!asked || !record.judgement) return std::nullopt;
  const bool failed_before = !asked->causes.empty();
  if (!failed_before && !has_failed(record.judgement->outcome)) return std::nullopt;
  const Case failing = case_from_json(record.case_json, "case " + record.label);
  if (!failing.scenario.bisect.over.empty() || failing.scenario.is_command()) return std::nullopt;
  const std::vector<Cause> causes = failed_before ? asked->causes : causes_of(*record.judgement);
  if (causes.empty()) return std::nullopt;
  std::vector<Ran> runs = {ran_of(record, "")};
  for (const CaseRecord* one : ran.subspan(1)) {
    if (!one->judgement) continue;
    runs.push_back(ran_of(*one, experiment_of(case_from_json(one->case_json, "an experiment"))));
  }
  return Found{diagnose(failing, causes, runs), asked->run};
}

std::string seconds_text(double seconds) {
  return nsa::to_text(seconds, 3) + " s";
}

json run_json(const Ran& ran) {
  json codes = json::array();
  for (const Cause& cause : ran.causes) codes.push_back(cause.title());
  return {{"experiment", ran.name},
          {"outcome", name_of(ran.outcome)},
          {"causes", std::move(codes)},
          {"seconds", Real(ran.seconds)}};
}

json runs_json(const std::vector<Ran>& runs) {
  json all = json::array();
  for (const Ran& ran : runs) all.push_back(run_json(ran));
  return all;
}

}  // namespace

std::string asked_text(const AskedDiagnosis& asked) {
  json causes = json::array();
  for (const Cause& cause : asked.causes) {
    causes.push_back({{"code", cause.code}, {"site", cause.site}, {"statement", cause.statement}});
  }
  const json says = {{"run", asked.run}, {"label", asked.label}, {"causes", std::move(causes)}};
  return says.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<Diagnosis> diagnosis_of(const Pairs& command,
                                      std::span<const CaseRecord* const> ran) {
  auto found = find(command, ran);
  return found ? std::optional(std::move(found->diagnosis)) : std::nullopt;
}

std::vector<RecordedDiagnosis> diagnoses_of(const RunRecord& run,
                                            std::span<const CaseRecord> records) {
  std::vector<const CaseRecord*> cases;
  std::map<std::string, std::vector<const CaseRecord*>> experiments;  // by label of the case
  for (const CaseRecord& record : records) {
    if (!is_experiment(record)) {
      cases.push_back(&record);
      continue;
    }
    const Case experiment = case_from_json(record.case_json, "case " + record.label);
    experiments[label_of_base(experiment)].push_back(&record);
  }
  std::vector<RecordedDiagnosis> all;
  for (const CaseRecord* record : cases) {
    std::vector<const CaseRecord*> ran = {record};
    const std::vector<const CaseRecord*>& of_it = experiments[record->label];
    ran.insert(ran.end(), of_it.begin(), of_it.end());
    auto found = find(run.provenance.command, ran);
    if (!found) continue;
    RecordedDiagnosis recorded{record->label, found->failed_in, std::move(found->diagnosis), 0.0};
    for (const CaseRecord* one : ran) recorded.seconds += one->seconds;
    all.push_back(std::move(recorded));
  }
  return all;
}

json to_object(const RecordedDiagnosis& recorded) {
  const Diagnosis& diagnosis = recorded.diagnosis;
  json questions = json::array();
  for (const Question& question : diagnosis.questions) {
    questions.push_back({{"question", question.about},
                         {"removes", question.what},
                         {"change", question.change},
                         {"answer", name_of(question.state)},
                         {"says", question.says},
                         {"runs", runs_json(question.runs)}});
  }
  return {{"case", recorded.label},
          {"failed_in", recorded.failed_in},
          {"symptom", diagnosis.symptom.title()},
          {"status", name_of(diagnosis.certainty)},
          {"because", diagnosis.because},
          {"smaller", diagnosis.smaller},
          {"finished", !diagnosis.next.has_value()},
          {"repeats", runs_json(diagnosis.repeats)},
          {"questions", std::move(questions)},
          {"seconds", Real(recorded.seconds)}};
}

std::string to_lines(const RecordedDiagnosis& recorded) {
  const Diagnosis& diagnosis = recorded.diagnosis;
  std::string status = name_of(diagnosis.certainty);
  std::transform(status.begin(), status.end(), status.begin(), [](unsigned char c) {
    return static_cast<char>(std::toupper(c));
  });
  std::string lines = status + "  " + recorded.label + "  " + diagnosis.symptom.title() + "\n";
  for (const std::string& why : diagnosis.because) lines += "  " + why + ".\n";
  if (!diagnosis.smaller.empty()) lines += "  in a smaller case: " + diagnosis.smaller + "\n";
  for (const AnswerGroup& answer : answers_of(diagnosis)) {
    lines += std::string("  ") + answer.words + ": " + nsa::join(answer.whats) + "\n";
  }
  return lines + "  " + seconds_text(recorded.seconds) + " of runs\n";
}

}  // namespace harness
