// Measured values against their limits: the comparison with the oracle first of all. Of cases that passed a long report
// tells, of each measured name, the value that came nearest to its limit.
#include <algorithm>
#include <cmath>
#include <limits>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/axes.h"
#include "reports/sections/by_scenario.h"
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
               shown_number(measured.value.value, kDigits),
               limited ? shown_number(measured.limit->value, kDigits) : "–",
               limited ? share(measured) : "–"});
  }
  return table.text();
}

std::string measurements_of_case(const ReportView& view, const CaseView& one) {
  std::string text;
  if (!one.record.judgement) return text;
  for (const auto& result : one.record.judgement->verdicts) {
    if (result.measured.empty()) continue;
    text +=
        "### " + escape(result.check) + " of " + case_name(view, one) + "\n\n" + table_of(result);
  }
  return text;
}

struct Value {
  harness::Measured measured;
  const CaseView* of = nullptr;
};

struct Values {  // of one name of one check, over the cases of a group
  std::string check;
  std::string name;
  bool limited = false;
  std::vector<Value> values;
};

// 0 at its limit, from whichever side it must keep away from it; what is no number is nearer than anything.
double distance(const harness::Measured& measured) {
  const double value = measured.value.value;
  const double limit = measured.limit->value;
  if (std::isnan(value) || std::isnan(limit)) return -1.0;
  if (limit > 0.0) return std::abs(value / limit - 1.0);
  return value >= limit ? 0.0 : std::numeric_limits<double>::infinity();
}

// In the order of numbers, and after them what is none.
bool less(const Value& a, const Value& b) {
  const double x = a.measured.value.value;
  const double y = b.measured.value.value;
  return std::isnan(y) ? !std::isnan(x) : x < y;
}

std::vector<Values> values_of(const Cases& group) {
  std::vector<Values> all;
  for (const CaseView* one : group) {
    for (const auto& result : one->record.judgement->verdicts) {
      for (const harness::Measured& measured : result.measured) {
        const bool limited = measured.limit.has_value();
        auto at = std::find_if(all.begin(), all.end(), [&](const Values& known) {
          return known.limited == limited && known.name == measured.name &&
                 known.check == result.check;
        });
        if (at == all.end()) at = all.insert(at, {result.check, measured.name, limited, {}});
        at->values.push_back({measured, one});
      }
    }
  }
  return all;
}

std::vector<std::string> row_of(const ReportView& view, const Values& all) {
  const auto& values = all.values;
  const auto text = [](const Value& one) {
    return shown_number(one.measured.value.value, kDigits);
  };
  std::vector<std::string> row = {
      escape(all.check), escape(all.name), std::to_string(values.size())};
  if (!all.limited) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end(), less);
    const bool same = text(*least) == text(*most);
    row.insert(row.end(),
               {same ? text(*least) : text(*least) + " – " + text(*most), "–", "–", "–"});
    return row;
  }
  const Value& nearest =
      *std::min_element(values.begin(), values.end(), [](const Value& a, const Value& b) {
        return distance(a.measured) < distance(b.measured);
      });
  row.insert(row.end(),
             {text(nearest),
              shown_number(nearest.measured.limit->value, kDigits),
              share(nearest.measured),
              point_text(view, *nearest.of)});
  return row;
}

std::string measurements_of_group(const ReportView& view, const Cases& group) {
  Table table({"check",
               "measured",
               "values",
               "nearest to its limit, or smallest – largest",
               "limit",
               "share of the limit",
               "of the case"});
  for (const Values& values : values_of(group)) table.row(row_of(view, values));
  return table.empty() ? "" : "### " + titled(view, group) + "\n\n" + table.text();
}

std::string measurements_body(const ReportView& view) {
  return told(view,
              "Measured against limits: what passed or is known to fail",
              &measurements_of_case,
              &measurements_of_group);
}

}  // namespace

Section measurements() {
  return {"Measured against limits", &measurements_body, false};
}

}  // namespace reports::section
