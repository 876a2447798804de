// JUnit's XML, which forges and test dashboards read: a suite a scenario, a test a case. Nothing that did not pass is told as
// passed: what could not be decided is an error, what is known to fail is skipped with its reason.
#include <array>
#include <cstdio>

#include "reports/formats.h"
#include "reports/sections/again.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/failures.h"
#include "reports/sections/wording.h"

namespace reports {
namespace {

using harness::Outcome;

// A character of UTF-8 that XML 1.0 allows; 0 where there is none at `at`.
std::size_t allowed_bytes(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) {
    return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  }
  const std::size_t bytes = first >= 0xF0 && first < 0xF5   ? 4
                            : first >= 0xE0 && first < 0xF0 ? 3
                            : first >= 0xC2 && first < 0xE0 ? 2
                                                            : 0;
  if (bytes == 0 || at + bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xC0U) != 0x80U) return 0;
  }
  const auto second = static_cast<unsigned char>(text[at + 1]);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool longer_than_needed =
      (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool past_the_last = first == 0xF4 && second >= 0x90;
  const bool no_character =
      first == 0xEF && second == 0xBF && static_cast<unsigned char>(text[at + 2]) >= 0xBE;
  return surrogate || longer_than_needed || past_the_last || no_character ? 0 : bytes;
}

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

}  // namespace

std::string junit_text(const ReportView& view) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" +
                     attribute("name", "nsa-harness") + ">\n";
  for (const Cases& cases : by_scenario(all_cases(view))) text += suite_of(view, cases);
  return text + "</testsuites>\n";
}

}  // namespace reports
