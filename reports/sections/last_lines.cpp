// What a process of a failed case wrote last on its stderr, and where all of it is.
#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/failures.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

std::string last_lines_body(const ReportView& view) {
  std::string text;
  for (const CaseView* one : told_in_full(view)) {
    if (!is_failure(one->outcome()) || is_trial(*one)) continue;
    for (const auto& [file, lines] : one->digest().last_lines) {
      text += "The last lines that " + case_name(view, *one) +
              " wrote on stderr (all of it is in " +
              escape(one->run.folder + "/" + one->record.folder + "/" + file) + "):\n\n" +
              code_block(lines, "text") + "\n";
    }
  }
  return text;
}

}  // namespace

Section last_lines() {
  return {"Last lines", &last_lines_body, false};
}

}  // namespace reports::section
