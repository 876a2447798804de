#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "nsa/base/text.h"
#include "reports/html/charts.h"
#include "reports/html/markup.h"
#include "reports/html/parts.h"

namespace reports::html {
namespace {

constexpr std::size_t kMostBars = 40;
constexpr std::size_t kMostNearest = 30;
constexpr int kMostLayers = 64;
constexpr double kDecades = 6.0;  // to each side of the limit

struct Error {
  std::string check;
  std::string name;
  double value = 0.0;
  double limit = 0.0;
  const CaseView* of = nullptr;

  [[nodiscard]] double share() const { return value / limit; }
  // What is no number is beyond every limit.
  [[nodiscard]] bool beyond() const { return !(value <= limit); }
};

// Of what a check measured, what must stay below its limit. Counts that must be reached are no errors.
bool is_error(const harness::Measured& measured) {
  const bool named = measured.name.find("error") != std::string::npos ||
                     measured.name.find("share_of") != std::string::npos;
  return named && measured.limit && measured.limit->value > 0.0;
}

void take_errors(const CaseView& one, std::vector<Error>& errors) {
  if (!one.record.judgement) return;
  for (const auto& result : one.record.judgement->verdicts) {
    for (const harness::Measured& measured : result.measured) {
      if (!is_error(measured)) continue;
      errors.push_back(
          {result.check, measured.name, measured.value.value, measured.limit->value, &one});
    }
  }
}

void sort_errors(std::vector<Error>& errors) {
  std::stable_sort(errors.begin(), errors.end(), [](const Error& a, const Error& b) {
    const double x = std::isnan(a.share()) ? HUGE_VAL : a.share();
    const double y = std::isnan(b.share()) ? HUGE_VAL : b.share();
    return x > y;
  });
}

// Decades of the share, the limit in the middle.
std::string error_row(const std::string& name, const Error& error) {
  const double decades = error.share() > 0.0 ? std::log10(error.share()) : -kDecades;
  const std::string words = nsa::to_text(error.value, 3) + " of " + nsa::to_text(error.limit, 3) +
                            ", share " + nsa::to_text(error.share(), 2) +
                            (error.beyond() ? ": beyond its limit" : "");
  return "<li><span class=\"name\">" + text(name) + "</span>" +
         share_bar(0.5 + decades / (2.0 * kDecades), 0.5, error.beyond()) + "<span class=\"words" +
         (error.beyond() ? " beyond" : "") + "\">" + text(words) + "</span></li>\n";
}

// Which layers and operations the findings name: a row an operation, a column a layer.
std::string layers_table(const CaseView& one) {
  if (!one.the_case || !one.record.judgement) return "";
  const int layers = one.the_case->scenario.model.n_layers;
  std::map<std::string, std::set<int>> named;
  for (const harness::Finding& finding : one.record.judgement->findings) {
    if (finding.site.layers.empty()) continue;
    const std::string& op = finding.site.op;
    named[op.empty() ? finding.code : finding.code + " " + op].insert(finding.site.layers.begin(),
                                                                      finding.site.layers.end());
  }
  if (named.empty() || layers < 1 || layers > kMostLayers) return "";
  std::string head = "<th scope=\"col\">finding</th>";
  for (int layer = 0; layer < layers; ++layer) {
    head += "<th scope=\"col\">" + std::to_string(layer) + "</th>";
  }
  std::string rows;
  for (const auto& [what, where] : named) {
    rows += "<tr><th scope=\"row\">" + text(what) + "</th>";
    for (int layer = 0; layer < layers; ++layer) {
      rows += where.contains(layer) ? "<td class=\"hit\">✕</td>" : "<td class=\"calm\">·</td>";
    }
    rows += "</tr>\n";
  }
  return "<h4>Layers that the findings name</h4>\n<div class=\"wide\" tabindex=\"0\"><table "
         "class=\"layers\">"
         "<thead><tr>" +
         head + "</tr></thead><tbody>\n" + rows + "</tbody></table></div>\n";
}

}  // namespace

std::string errors_of(const CaseView& one) {
  std::vector<Error> errors;
  take_errors(one, errors);
  sort_errors(errors);
  std::string rows;
  for (std::size_t i = 0; i < std::min(errors.size(), kMostBars); ++i) {
    rows += error_row(errors[i].check + ": " + errors[i].name, errors[i]);
  }
  if (errors.size() > kMostBars) {
    rows += "<li>and " + std::to_string(errors.size() - kMostBars) +
            " more, all of them smaller</li>\n";
  }
  if (!rows.empty()) {
    rows =
        "<h4>Errors by stage, the largest first; the mark is the limit, each half of a bar six "
        "decades</h4>\n<ul class=\"bars\">\n" +
        rows + "</ul>\n";
  }
  return rows + layers_table(one);
}

std::string nearest_to_limits(const ReportView& view) {
  std::vector<Error> errors;
  for (const CaseView& one : view.cases) {
    if (one.outcome() == harness::Outcome::pass && one.nothing_planted()) take_errors(one, errors);
  }
  sort_errors(errors);
  std::string rows;
  std::set<std::pair<std::string, std::string>>
      told;  // of each value only the case that came nearest
  for (const Error& error : errors) {
    if (told.size() == kMostNearest) break;
    if (!told.emplace(error.check, error.name).second) continue;
    rows += error_row(error.name + " of " + error.of->record.label, error);
  }
  return folded("Nearest to their limits, of what passed",
                rows.empty() ? "" : "<ul class=\"bars\">\n" + rows + "</ul>\n");
}

}  // namespace reports::html
