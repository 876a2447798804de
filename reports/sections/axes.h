// What tells the cases of one scenario apart: the axes of the scenario file and the values that these cases have on them,
// and the run where a report has several.
#pragma once

#include <string>
#include <vector>

#include "reports/sections/by_scenario.h"

namespace reports {

struct Axis {
  std::string path;
  std::vector<std::string> values;  // each once, in the order of the cases; not escaped
};

// A case whose description cannot be read has no point and adds nothing.
[[nodiscard]] std::vector<Axis> axes_of(const ReportView& view, const Cases& cases);

// "1, 31, 32": escaped.
[[nodiscard]] std::string values_text(const Axis& axis);

// The point of a case beside its scenario's name: "attention.gate=cmp,training.seq_len=1"; "–" where it has none. Escaped.
[[nodiscard]] std::string point_text(const ReportView& view, const CaseView& one);

}  // namespace reports
