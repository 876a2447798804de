// How to do it again.
#include "reports/markdown.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

std::string reproduce_body(const ReportView& view) {
  std::string text;
  for (const harness::RunRecord& run : view.request.runs) {
    if (!run.provenance.argv.empty()) text += code_block(run.provenance.argv, "sh") + "\n";
    text += "The same evidence judged again, and this report:\n\n" +
            code_block("nsa-harness judge " + run.name + "\nnsa-harness report " + run.name, "sh") +
            "\n";
  }
  return text;
}

}  // namespace

Section reproduce() {
  return {"Reproduce", &reproduce_body, false};
}

}  // namespace reports::section
