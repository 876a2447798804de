#include "reports/sections/axes.h"

#include <algorithm>

#include "nsa/base/text.h"
#include "reports/markdown.h"

namespace reports {
namespace {

void add(std::vector<Axis>& axes, const std::string& path, const std::string& value) {
  auto axis =
      std::find_if(axes.begin(), axes.end(), [&](const Axis& known) { return known.path == path; });
  if (axis == axes.end()) axis = axes.insert(axes.end(), {path, {}});
  const bool is_new =
      std::find(axis->values.begin(), axis->values.end(), value) == axis->values.end();
  if (is_new) axis->values.push_back(value);
}

}  // namespace

std::vector<Axis> axes_of(const ReportView& view, const Cases& cases) {
  std::vector<Axis> axes;
  for (const CaseView* one : cases) {
    if (!one->the_case) continue;
    for (const auto& [path, value] : one->the_case->point) add(axes, path, value);
  }
  if (view.request.runs.size() > 1) {
    for (const CaseView* one : cases) add(axes, "run", one->run.name);
  }
  return axes;
}

std::string values_text(const Axis& axis) {
  constexpr std::size_t kMostValues = 24;  // more are not compared by reading
  std::vector<std::string> values;
  for (std::size_t i = 0; i < std::min(axis.values.size(), kMostValues); ++i) {
    values.push_back(escape(axis.values[i]));
  }
  const std::string text = nsa::join(values);
  return axis.values.size() > kMostValues
             ? text + " and " + std::to_string(axis.values.size() - kMostValues) + " more"
             : text;
}

std::string point_text(const ReportView& view, const CaseView& one) {
  const std::string& label = one.record.label;
  const std::string start = one.record.scenario + "[";
  std::string text = escape(label);
  if (label == one.record.scenario) text = "–";
  if (label.starts_with(start) && label.ends_with("]")) {
    text = escape(label.substr(start.size(), label.size() - start.size() - 1));
  }
  return view.request.runs.size() > 1 ? text + " (run " + escape(one.run.name) + ")" : text;
}

}  // namespace reports
