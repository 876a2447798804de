// Measured values against their limits: the comparison with the oracle first of all.
#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

constexpr int kDigits = 3;

std::string share(const harness::Measured& measured) {
  const double limit = measured.limit->value;
  if (!(limit > 0.0)) return "–";
  return nsa::to_text(measured.value.value / limit, 2);
}

std::string table_of(const harness::CheckResult& result) {
  Table table({"measured", "value", "limit", "share of the limit"});
  for (const harness::Measured& measured : result.measured) {
    const bool limited = measured.limit.has_value();
    table.row({escape(measured.name),
               nsa::to_text(measured.value.value, kDigits),
               limited ? nsa::to_text(measured.limit->value, kDigits) : "–",
               limited ? share(measured) : "–"});
  }
  return table.text();
}

std::string body(const ReportView& view) {
  std::string text;
  for (const CaseView& one : view.cases) {
    if (!one.record.judgement) continue;
    for (const auto& result : one.record.judgement->verdicts) {
      if (result.measured.empty()) continue;
      text +=
          "### " + escape(result.check) + " of " + case_name(view, one) + "\n\n" + table_of(result);
    }
  }
  return text;
}

}  // namespace

Section measurements() {
  return {"Measured against limits", &body, false};
}

}  // namespace reports::section
