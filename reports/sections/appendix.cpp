// Provenance, machine and environment of each run, and what the checks mean.
#include <algorithm>

#include "reports/markdown.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

std::string provenance(const harness::RunRecord& run) {
  const harness::Provenance& from = run.provenance;
  Table table({"", ""});
  table.row({"run", escape(run.name)});
  table.row({"commit", from.commit.empty() ? "not of a checkout" : escape(from.commit)});
  if (from.dirty) table.row({"uncommitted changes", "yes, diff " + escape(from.diff_hash)});
  table.row({"sources", escape(from.source_hash)});
  table.row({"worker", escape(from.binary_hash)});
  table.row({"complete", run.complete ? "yes" : "no"});
  for (const auto& [name, value] : from.machine) table.row({escape(name), escape(value)});
  return table.text();
}

std::string environment(const harness::RunRecord& run) {
  if (run.provenance.environment.empty()) return "";
  Table table({"variable that workers got", "value"});
  for (const auto& [name, value] : run.provenance.environment)
    table.row({escape(name), escape(value)});
  return table.text();
}

bool gave_a_verdict(const ReportView& view, const std::string& check) {
  return std::any_of(view.cases.begin(), view.cases.end(), [&](const CaseView& one) {
    const auto& judgement = one.record.judgement;
    return judgement && std::any_of(judgement->verdicts.begin(),
                                    judgement->verdicts.end(),
                                    [&](const auto& verdict) { return verdict.check == check; });
  });
}

std::string checks(const ReportView& view) {
  if (view.request.check_about.empty()) return "";
  Table table({"check", "what it judges"});
  for (const auto& [name, about] : view.request.check_about) {
    if (gave_a_verdict(view, name)) table.row({escape(name), escape(about)});
  }
  return table.empty() ? "" : table.text();
}

// A command of the user's own is never GO for what was not looked at, and it is the same case under rules of its own.
std::string rules(const ReportView& view) {
  const bool commands = std::any_of(view.cases.begin(), view.cases.end(), [](const CaseView& one) {
    return one.the_case && one.the_case->scenario.is_command();
  });
  const std::string of_commands =
      "Of a command of your own: ENDED BY ITSELF: it passed, and its weights, gradients and NaN "
      "were not looked "
      "at. INCONCLUSIVE: steps were not looked at that a check needs. GO: every check had every "
      "step.\n\n";
  return "GO: every case passed. CONDITIONAL GO: beside passed cases there are only skipped, "
         "inconclusive and expectedly failing ones, or checks that were not asked. NO-GO: anything "
         "else, and always when a run is incomplete or nothing passed.\n\n" +
         (commands ? of_commands : "") +
         "New, returned, fixed: against the newest earlier run of the same case that decided it. " +
         (commands
              ? "A command is the same case if its folder, program and arguments are the same.\n"
              : "The same case has the same scenario, profile, model, training, route, fault and "
                "seed.\n");
}

std::string appendix_body(const ReportView& view) {
  std::string text;
  for (const harness::RunRecord& run : view.request.runs)
    text += provenance(run) + environment(run);
  return folded("Provenance and environment", text) +
         folded("What the checks judge", checks(view)) +
         "A case is one run of a scenario at one point of its axes. Its processes only record; the "
         "checks judge what was recorded. INCONCLUSIVE and SKIP are never counted as passed.\n\n" +
         rules(view);
}

}  // namespace

Section appendix() {
  return {"Appendix", &appendix_body, false};
}

}  // namespace reports::section
