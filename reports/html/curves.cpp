#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "nsa/base/text.h"
#include "reports/html/charts.h"
#include "reports/html/markup.h"
#include "reports/html/parts.h"
#include "reports/range.h"
#include "reports/times.h"

namespace reports::html {
namespace {

using harness::history::NightTimes;

constexpr std::size_t kMostCells = 40;
constexpr std::size_t kMostNights = 120;

bool is_timed(const CaseView& one) {
  const auto& metrics = one.digest().metrics;
  return std::any_of(metrics.begin(), metrics.end(), [](const auto& metric) {
    return metric.first == harness::kControlMs;
  });
}

using Times = std::vector<double> harness::history::Stage::*;

// The lower quartile of all launches of a night; NaN without one.
double quartile_of(const NightTimes& night, Times times) {
  std::vector<double> all = night.first.*times;
  if (night.again) {
    const std::vector<double>& more = (*night.again).*times;
    all.insert(all.end(), more.begin(), more.end());
  }
  std::erase_if(all, [](double ms) { return !std::isfinite(ms); });
  if (all.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(all.begin(), all.end());
  return all[(all.size() - 1) / 4];
}

Curve curve_of(const std::string& label,
               const std::vector<NightTimes>& nights,
               const std::vector<harness::RunRecord>& runs) {
  Curve curve;
  curve.label = label;
  const auto judged = harness::history::judge_nights(nights);
  for (std::size_t i = nights.size() - std::min(nights.size(), kMostNights); i < nights.size();
       ++i) {
    const auto run = std::find_if(
        runs.begin(), runs.end(), [&](const auto& known) { return known.id == nights[i].run; });
    curve.nights.push_back(run == runs.end() ? "?" : time_text(run->started_ms, 0).substr(0, 16));
    curve.verdicts.push_back(verdict_text(judged[i]));
    curve.step_ms.push_back(quartile_of(nights[i], &harness::history::Stage::step_ms));
    curve.control_ms.push_back(quartile_of(nights[i], &harness::history::Stage::control_ms));
  }
  return curve;
}

std::string numbers_table(const Curve& curve) {
  std::string rows;
  for (std::size_t i = curve.nights.size(); i-- > 0;) {
    rows += "<tr><th scope=\"row\">" + text(curve.nights[i]) + "</th><td class=\"n\">" +
            text(nsa::to_text(curve.step_ms[i], 4)) + "</td><td class=\"n\">" +
            text(nsa::to_text(curve.control_ms[i], 4)) + "</td><td>" + text(curve.verdicts[i]) +
            "</td></tr>\n";
  }
  return "<div class=\"wide\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">night "
         "(UTC)</th><th "
         "scope=\"col\">step, ms</th><th scope=\"col\">dense control, ms</th><th "
         "scope=\"col\">verdict</th></tr></thead><tbody>\n" +
         rows + "</tbody></table></div>\n";
}

// Against the first night: candidate and control have other sizes.
Line relative(const std::string& name, const std::vector<double>& values) {
  Line line{name, {}};
  double first = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(first)) first = values[i];
    line.points.emplace_back(static_cast<double>(i), 100.0 * values[i] / first);
  }
  return line;
}

}  // namespace

std::vector<Curve> curves_of(const harness::Store& store, const ReportView& view) {
  std::vector<Curve> all;
  std::vector<harness::RunRecord> runs;
  std::set<std::string> seen;
  for (const CaseView& one : view.cases) {
    if (!is_timed(one) || !seen.insert(one.record.history_id).second) continue;
    if (all.size() == kMostCells) break;
    if (runs.empty()) {
      runs = store.runs(std::numeric_limits<std::int64_t>::min(),
                        std::numeric_limits<std::int64_t>::max());
      std::erase_if(runs, [&](const auto& run) { return run.id > view.request.runs.back().id; });
    }
    all.push_back(
        curve_of(one.record.label, nights_of_cell(store, runs, one.record.history_id), runs));
  }
  return all;
}

std::string curves(const std::vector<Curve>& all) {
  std::string out;
  for (const Curve& curve : all) {
    if (curve.nights.empty()) continue;
    const std::string drawn =
        line_chart(curve.label + ": per cent of the first night that is shown",
                   curve.nights.front(),
                   curve.nights.back(),
                   {relative("step", curve.step_ms), relative("dense control", curve.control_ms)});
    const std::string alone = "<p>" + text(curve.label) + ": one night so far.</p>\n";
    out += (drawn.empty() ? alone : drawn) +
           folded("Numbers of " + text(curve.label), numbers_table(curve));
  }
  return out;
}

}  // namespace reports::html
