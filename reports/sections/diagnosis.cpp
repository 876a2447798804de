// What a failure depends on: what was taken away from its case, what each answer means, and what is established by them.
#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/list.h"

namespace reports::section {
namespace {

using harness::Diagnosis;
using harness::Question;
using harness::Ran;
using harness::RecordedDiagnosis;

std::string saw(const Ran& ran) {
  std::string text = std::string("**") + harness::name_of(ran.outcome) + "**";
  if (!ran.causes.empty()) text += " " + escape(ran.causes.front().title());
  return text;
}

void add_run(const Ran& ran, const std::string& question, const std::string& says, Table& rows) {
  rows.row({escape(question),
            escape(ran.name.empty() ? "as it was" : ran.name),
            saw(ran),
            says.empty() ? "–" : escape(says),
            nsa::to_text(ran.seconds, 3)});
}

// The experiments in the order in which they were asked for; the last run of a question tells what it means.
std::string tree(const Diagnosis& diagnosis) {
  Table rows({"question", "experiment", "saw", "which means", "seconds"});
  for (const Ran& ran : diagnosis.repeats) {
    add_run(ran, ran.name == "again" ? "Deterministic or not?" : "", "", rows);
  }
  for (const Question& question : diagnosis.questions) {
    for (std::size_t i = 0; i < question.runs.size(); ++i) {
      const bool last = i + 1 == question.runs.size();
      add_run(question.runs[i], i == 0 ? question.about : "", last ? question.says : "", rows);
    }
  }
  return rows.text();
}

std::string of_diagnosis(const RecordedDiagnosis& recorded) {
  const Diagnosis& diagnosis = recorded.diagnosis;
  std::string text = "### " + escape(recorded.label) + "\n\n";
  text += "- symptom: " + escape(diagnosis.symptom.title());
  text += recorded.failed_in.empty() ? "\n" : ", of run " + escape(recorded.failed_in) + "\n";
  text += std::string("- cause: **") + harness::name_of(diagnosis.certainty) + "**\n";
  for (const std::string& why : diagnosis.because) text += "- " + escape(why) + ".\n";
  if (!diagnosis.smaller.empty()) {
    text += "- asked of a smaller case: " + escape(diagnosis.smaller) + "\n";
  }
  for (const harness::AnswerGroup& answer : harness::answers_of(diagnosis)) {
    text += std::string("- ") + answer.words + ": " + escape(nsa::join(answer.whats)) + "\n";
  }
  return text + "\n" + tree(diagnosis);
}

std::string diagnosis_body(const ReportView& view) {
  std::string text;
  for (const RecordedDiagnosis& one : view.diagnoses) text += of_diagnosis(one);
  return text;
}

}  // namespace

Section diagnosis() {
  return {"Diagnosis", &diagnosis_body, true};
}

}  // namespace reports::section
