// JUnit's XML, which forges and test dashboards read: a suite a scenario, a test a case. Nothing that did not pass is told as
// passed: what could not be decided is an error, what is known to fail is skipped with its reason.
#include <array>
#include <cstdio>

#include "reports/characters.h"
#include "reports/formats.h"
#include "reports/sections/again.h"
#include "reports/sections/alarms.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/failures.h"
#include "reports/sections/wording.h"

namespace reports {
namespace {

using harness::Outcome;

std::string xml(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = allowed_bytes(text, at);
    const char c = text[at];
    if (bytes == 0)
      out += '?';
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\n')
      out += "&#10;";
    else
      out += text.substr(at, bytes);
    at += bytes == 0 ? 1 : bytes;
  }
  return out;
}

std::string attribute(const char* name, std::string_view value) {
  return std::string(" ") + name + "=\"" + xml(value) + "\"";
}

std::string seconds_text(double seconds) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3f", seconds);
  return text.data();
}

// "failure", "error", "skipped"; "" where the case passed.
const char* element_of(Outcome outcome) {
  if (outcome == Outcome::pass) return "";
  if (outcome == Outcome::error || outcome == Outcome::inconclusive) return "error";
  return is_failure(outcome) ? "failure" : "skipped";
}

std::string body_of(const CaseView& one, const char* element) {
  const harness::Finding* finding = leading_finding(one);
  const std::string outcome = harness::name_of(one.outcome());
  const std::string message =
      finding == nullptr || one.outcome() == Outcome::skip
          ? one.reason()
          : harness::title_of(finding->code, finding->site) + ": " + finding->statement;
  std::string text = "      <" + std::string(element) +
                     attribute("type", finding == nullptr ? outcome : finding->code) +
                     attribute("message", outcome + ", " + message) + ">";
  if (finding != nullptr && !finding->next_action.empty()) {
    text += xml("Next: " + finding->next_action) + "&#10;";
  }
  if (one.outcome() != Outcome::skip) text += xml(case_again(one));
  return text + "</" + element + ">\n";
}

std::string test_of(const ReportView& view, const CaseView& one) {
  const std::string begin = "    <testcase" + attribute("classname", one.record.scenario) +
                            attribute("name", case_name(view, one)) +
                            attribute("time", seconds_text(one.record.seconds));
  const char* element = element_of(one.outcome());
  if (*element == '\0') return begin + "/>\n";
  return begin + ">\n" + body_of(one, element) + "    </testcase>\n";
}

std::string suite_of(const ReportView& view, const Cases& cases) {
  int failures = 0;
  int errors = 0;
  int skipped = 0;
  double seconds = 0.0;
  std::string tests;
  for (const CaseView* one : cases) {
    const std::string_view element = element_of(one->outcome());
    failures += element == "failure" ? 1 : 0;
    errors += element == "error" ? 1 : 0;
    skipped += element == "skipped" ? 1 : 0;
    seconds += one->record.seconds;
    tests += test_of(view, *one);
  }
  return "  <testsuite" + attribute("name", cases.front()->record.scenario) +
         attribute("tests", std::to_string(cases.size())) +
         attribute("failures", std::to_string(failures)) +
         attribute("errors", std::to_string(errors)) +
         attribute("skipped", std::to_string(skipped)) + attribute("time", seconds_text(seconds)) +
         ">\n" + tests + "  </testsuite>\n";
}

// An alarm that fails the night fails; another one is told as what was left out.
std::string alarms_suite(const ReportView& view) {
  const std::vector<section::Alarm> alarms = section::alarms_of(view);
  if (alarms.empty()) return "";
  std::string tests;
  std::size_t failures = 0;
  for (const section::Alarm& alarm : alarms) {
    const std::string element = alarm.fails ? "failure" : "skipped";
    failures += alarm.fails ? 1 : 0;
    tests += "    <testcase" + attribute("classname", "alarms") +
             attribute("name", alarm.name + " " + alarm.signature) + ">\n      <" + element +
             (alarm.fails ? attribute("type", alarm.name) : "") + attribute("message", alarm.text) +
             "/>\n    </testcase>\n";
  }
  return "  <testsuite" + attribute("name", "alarms") +
         attribute("tests", std::to_string(alarms.size())) +
         attribute("failures", std::to_string(failures)) + attribute("errors", "0") +
         attribute("skipped", std::to_string(alarms.size() - failures)) + ">\n" + tests +
         "  </testsuite>\n";
}

}  // namespace

std::string junit_text(const ReportView& view) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" +
                     attribute("name", "nsa-harness") + ">\n";
  for (const Cases& cases : by_scenario(all_cases(view))) text += suite_of(view, cases);
  return text + alarms_suite(view) + "</testsuites>\n";
}

}  // namespace reports
