#include "reports/report.h"

#include <string_view>

#include "nsa/base/secrets.h"
#include "nsa/base/text.h"
#include "reports/formats.h"
#include "reports/html/page.h"
#include "reports/sections/alarms.h"
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

std::string text_of(const Section& section, const ReportView& view) {
  const std::string body = section.body(view);
  if (body.empty()) return "";
  const bool titled = *section.title != '\0' && !is_all_folded(body);
  return titled ? std::string("## ") + section.title + "\n\n" + body : body;
}

std::string ended(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text + "\n";
}

std::string markdown(const ReportView& view, bool brief) {
  std::string text;
  for (const Section& section : sections()) {
    if (!brief || section.in_summary) text += text_of(section, view);
  }
  return ended(text);
}

nlohmann::json nights_json(const ReportView& view) {
  nlohmann::json nights = nlohmann::json::array();
  for (const DecidedNight& night : view.nights) {
    nlohmann::json names = nlohmann::json::array();
    for (const harness::RunRecord& run : night.runs) names.push_back(run.name);
    nights.push_back(
        {{"night", night.name}, {"decision", night.decision}, {"runs", std::move(names)}});
  }
  return nights;
}

std::string json_text(const harness::Store& store, const ReportView& view) {
  nlohmann::json runs = nlohmann::json::array();
  for (const Night& night : view.request.earlier) {
    for (const harness::RunRecord& run : night.runs) runs.push_back(render_json(store, run, ""));
  }
  for (const harness::RunRecord& run : view.request.runs)
    runs.push_back(render_json(store, run, ""));
  nlohmann::json report = {
      {"decision", view.decision}, {"range", view.request.about_range}, {"runs", std::move(runs)}};
  if (!view.nights.empty()) report["nights"] = nights_json(view);
  for (const section::Alarm& alarm : section::alarms_of(view)) {
    report["alarms"].push_back(
        {{"alarm", alarm.name}, {"text", alarm.text}, {"fails", alarm.fails}});
  }
  return report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string render_summary(const harness::Store& store,
                           const ReportRequest& request,
                           std::size_t most_bytes) {
  constexpr std::string_view kRest =
      "The rest is in the report itself, report.md in the run's folder.\n";
  const ReportView view = make_view(store, request);
  std::string text;
  for (const Section& section : sections()) {
    const std::string more = text_of(section, view);
    if (text.size() + more.size() + kRest.size() > most_bytes) return text + std::string(kRest);
    text += more;
  }
  return ended(text);
}

namespace {

std::string rendered(const harness::Store& store, const ReportRequest& request) {
  const ReportView view = make_view(store, request);
  switch (request.format) {
    case Format::engineer: return markdown(view, false);
    case Format::summary: return markdown(view, true);
    case Format::html: return html::page(view, html::curves_of(store, view));
    case Format::json: return json_text(store, view);
    case Format::junit: return junit_text(view);
    case Format::github: return issue_text(view);
    case Format::perfetto: return perfetto_text(view);
  }
  return "";
}

}  // namespace

// Older versions stored what is hidden today; labels and arguments may hold what steers a terminal.
std::string render_report(const harness::Store& store, const ReportRequest& request) {
  return nsa::without_steering(nsa::without_secrets(rendered(store, request)), "\n\t");
}

}  // namespace reports
