// Steps that were measured for their speed: tokens per second, memory and waits, a row a case.
#include <algorithm>
#include <vector>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

// Of rank 0; ascending.
std::vector<double> sorted(const CaseView& one, const std::string& metric) {
  const auto series = one.digest().series.find(metric);
  if (series == one.digest().series.end()) return {};
  std::vector<double> values = series->second;
  std::sort(values.begin(), values.end());
  return values;
}

std::string median(const std::vector<double>& values, int digits) {
  return values.empty() ? "–" : nsa::to_text(values[values.size() / 2], digits);
}

std::string largest_gib(const std::vector<double>& values) {
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  return values.empty() ? "–" : nsa::to_text(values.back() / kGib, 3);
}

std::string throughput_body(const ReportView& view) {
  Table table({"case",
               "steps",
               "tokens/s, median",
               "slowest to fastest step, ms",
               "peak GiB",
               "forward",
               "backward",
               "optimizer",
               "host waits a step"});
  bool any = false;
  for (const CaseView& one : view.cases) {
    const std::vector<double> speed = sorted(one, "tokens_per_s");
    const std::vector<double> ms = sorted(one, "step_ms");
    if (speed.empty() || ms.empty()) continue;
    any = true;
    table.row({case_name(view, one),
               std::to_string(speed.size()),
               grouped(static_cast<std::int64_t>(speed[speed.size() / 2])),
               nsa::to_text(ms.back(), 4) + " – " + nsa::to_text(ms.front(), 4),
               largest_gib(sorted(one, "tensor_peak_bytes")),
               largest_gib(sorted(one, "peak_bytes.forward")),
               largest_gib(sorted(one, "peak_bytes.backward")),
               largest_gib(sorted(one, "peak_bytes.optimizer")),
               median(sorted(one, "host_syncs"), 4)});
  }
  return any ? table.text() : "";
}

}  // namespace

Section throughput() {
  return {"Throughput", &throughput_body, false};
}

}  // namespace reports::section
