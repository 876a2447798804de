// How to do it again: whole lines that can be pasted.
#include "reports/markdown.h"
#include "reports/sections/again.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

std::string of_run(const harness::RunRecord& run) {
  std::string text;
  if (!run.provenance.argv.empty()) {
    text += "The whole run:\n\n" + code_block(run_again(run), "sh") + "\n";
  }
  text +=
      "To write this report again, and to judge the stored run again (that never makes the record "
      "worse):\n\n";
  return text +
         code_block(
             on_database(run, "report " + run.name) + "\n" + on_database(run, "judge " + run.name),
             "sh") +
         "\n";
}

std::string reproduce_body(const ReportView& view) {
  std::string text;
  for (const harness::RunRecord& run : view.request.runs) text += of_run(run);
  return text;
}

}  // namespace

Section reproduce() {
  return {"Reproduce", &reproduce_body, false};
}

}  // namespace reports::section
