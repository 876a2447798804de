#include "reports/report.h"

#include <string_view>

#include "reports/sections/list.h"
#include "reports/view.h"

namespace reports {
namespace {

// Nothing stands outside of the parts that are folded: their titles say what they are.
bool is_all_folded(const std::string& body) {
  constexpr std::string_view kBegin = "<details>\n";
  constexpr std::string_view kEnd = "</details>\n\n";
  for (std::size_t at = 0; at < body.size();) {
    if (body.compare(at, kBegin.size(), kBegin) != 0) return false;
    const std::size_t end = body.find(kEnd, at);
    if (end == std::string::npos) return false;
    at = end + kEnd.size();
  }
  return true;
}

std::string markdown(const ReportView& view, bool brief) {
  std::string text;
  for (const Section& section : sections()) {
    if (brief && !section.in_summary) continue;
    const std::string body = section.body(view);
    if (body.empty()) continue;
    const bool titled = *section.title != '\0' && !is_all_folded(body);
    if (titled) text += std::string("## ") + section.title + "\n\n";
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
