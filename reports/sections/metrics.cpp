// Samples of rank 0, the time that each phase took, and the loss where there are enough steps to draw.
#include <algorithm>
#include <cmath>
#include <map>

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

// One row a phase in the order of time, one column a process.
std::string phases(const CaseView& one) {
  std::vector<int> processes;
  std::vector<std::string> names;
  std::map<std::pair<std::string, int>, std::int64_t> ms;
  for (const PhaseTime& phase : one.phases) {
    if (std::find(processes.begin(), processes.end(), phase.process) == processes.end()) {
      processes.push_back(phase.process);
    }
    if (std::find(names.begin(), names.end(), phase.phase) == names.end())
      names.push_back(phase.phase);
    ms[{phase.phase, phase.process}] = phase.ms;
  }
  if (names.empty()) return "";
  std::vector<std::string> header = {"phase, ms"};
  for (const int process : processes) header.push_back(escape(harness::process_name(process)));
  Table table(header);
  for (const std::string& name : names) {
    std::vector<std::string> cells = {escape(name)};
    for (const int process : processes) {
      const auto at = ms.find({name, process});
      cells.push_back(at == ms.end() ? "–" : grouped(at->second));
    }
    table.row(std::move(cells));
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
