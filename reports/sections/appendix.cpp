// Provenance, machine and environment of each run, and what the checks mean.
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

std::string checks(const ReportView& view) {
  if (view.request.check_about.empty()) return "";
  Table table({"check", "what it judges"});
  for (const auto& [name, about] : view.request.check_about)
    table.row({escape(name), escape(about)});
  return table.text();
}

std::string appendix_body(const ReportView& view) {
  std::string text;
  for (const harness::RunRecord& run : view.request.runs)
    text += provenance(run) + environment(run);
  return folded("Provenance and environment", text) +
         folded("What the checks judge", checks(view)) +
         "A case is one run of a scenario at one point of its axes. Its processes only record; the "
         "checks judge what was recorded. INCONCLUSIVE and SKIP are never counted as passed.\n\n"
         "GO: every case passed. CONDITIONAL GO: beside passed cases there are only skipped, "
         "inconclusive and expectedly failing ones, or checks that were not asked. NO-GO: anything "
         "else, and always when a run is incomplete or nothing passed.\n\n"
         "New, returned, fixed: against the newest earlier run of the same case that decided it. "
         "The "
         "same case has the same scenario, profile, model, training, route, fault and seed.\n";
}

}  // namespace

Section appendix() {
  return {"Appendix", &appendix_body, false};
}

}  // namespace reports::section
