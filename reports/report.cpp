#include "reports/report.h"

#include "reports/sections/list.h"
#include "reports/view.h"

namespace reports {
namespace {

std::string markdown(const ReportView& view, bool brief) {
  std::string text;
  for (const Section& section : sections()) {
    if (brief && !section.in_summary) continue;
    const std::string body = section.body(view);
    if (body.empty()) continue;
    if (*section.title != '\0') text += std::string("## ") + section.title + "\n\n";
    text += body;
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text + "\n";
}

std::string json_text(const harness::Store& store, const ReportView& view) {
  nlohmann::json runs = nlohmann::json::array();
  for (const harness::RunRecord& run : view.request.runs)
    runs.push_back(render_json(store, run, ""));
  const nlohmann::json report = {
      {"decision", view.decision}, {"range", view.request.about_range}, {"runs", std::move(runs)}};
  return report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string render_report(const harness::Store& store, const ReportRequest& request) {
  const ReportView view = make_view(store, request);
  switch (request.format) {
    case Format::engineer: return markdown(view, false);
    case Format::summary: return markdown(view, true);
    case Format::json: return json_text(store, view);
  }
  return "";
}

}  // namespace reports
