// Samples of rank 0, the time that each phase took, and the loss where there are enough steps to draw.
#include <algorithm>
#include <cmath>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

std::string samples(const CaseView& one) {
  if (one.record.metrics.empty()) return "";
  Table table({"metric (rank 0, last step)", "value"});
  for (const auto& [name, value] : one.record.metrics)
    table.row({escape(name), nsa::to_text(value, 6)});
  return table.text();
}

std::string phases(const CaseView& one) {
  if (one.phases.empty()) return "";
  Table table({"process", "phase", "ms"});
  for (const PhaseTime& phase : one.phases) {
    table.row(
        {escape(harness::process_name(phase.process)), escape(phase.phase), grouped(phase.ms)});
  }
  return table.text();
}

std::string loss_chart(const CaseView& one) {
  constexpr std::size_t kFewestSteps = 3;
  const auto losses = one.series.find("loss");
  if (losses == one.series.end() || losses->second.empty()) return "";
  const std::vector<double>& values = losses->second.begin()->second;
  const bool finite =
      std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
  if (values.size() < kFewestSteps || !finite) return "";
  std::vector<std::string> numbers;
  for (const double value : values) numbers.push_back(nsa::to_text(value, 5));
  const std::string text = "xychart-beta\n    title \"loss of rank " +
                           std::to_string(losses->second.begin()->first) +
                           "\"\n    x-axis \"step\" 1 --> " + std::to_string(values.size()) +
                           "\n    line [" + nsa::join(numbers) + "]\n";
  return code_block(text, "mermaid") + "\n";
}

std::string body(const ReportView& view) {
  std::string text;
  for (const CaseView& one : view.cases) {
    const std::string shown = samples(one) + phases(one) + loss_chart(one);
    if (!shown.empty()) text += "### " + case_name(view, one) + "\n\n" + shown;
  }
  return text;
}

}  // namespace

Section metrics() {
  return {"Metrics and timings", &body, false};
}

}  // namespace reports::section
