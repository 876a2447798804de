// Root cause: what follows from the initiating finding, which stands with its words under Critical findings.
#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

using harness::Finding;
using harness::Role;

// A label of a Mermaid node: letters, digits and a few signs; anything else could end the label.
std::string node_text(const Finding& finding) {
  std::string text;
  for (const char c : finding.code + " " + finding.site.text()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       c == ' ' || c == '.' || c == '_' || c == ',' || c == '-';
    if (plain && byte < 0x80) text += c;
  }
  constexpr std::size_t kLongest = 80;
  return text.substr(0, kLongest);
}

std::string diagram(const std::vector<Finding>& findings) {
  std::string text = "flowchart TD\n    f0[\"" + node_text(findings.front()) + "\"]\n";
  for (std::size_t i = 1; i < findings.size(); ++i) {
    if (findings[i].role != Role::cascade) continue;
    const std::string name = "f" + std::to_string(i);
    text += "    f0 --> " + name + "[\"" + node_text(findings[i]) + "\"]\n";
  }
  return code_block(text, "mermaid") + "\n";
}

std::string of_role(const std::vector<Finding>& findings, Role role, const std::string& title) {
  std::string text;
  for (const Finding& finding : findings) {
    if (finding.role != role) continue;
    text += "  - " + finding_title(finding) + ": " + escape(finding.statement) + "\n";
  }
  return text.empty() ? "" : "- " + title + ":\n" + text;
}

std::string causes_of_case(const ReportView& view, const CaseView& one) {
  const std::vector<Finding>& findings = one.record.judgement->findings;
  const Finding& first = findings.front();
  if (findings.size() < 2) return "";  // nothing follows from it
  std::string text = "### " + case_name(view, one) + "\n\n";
  text += first.role == Role::initiating
              ? "- it begins with " + finding_title(first) + "\n"
              : "- which finding came first, the evidence does not tell\n";
  text += of_role(findings, Role::cascade, "what follows from it");
  text += of_role(findings, Role::unknown, "whose place is not known");
  text += of_role(findings, Role::teardown, "what the controller did itself to end the case");
  text += "\n";
  const bool has_cascade =
      text.find("what follows from it") != std::string::npos && first.role == Role::initiating;
  return has_cascade ? text + diagram(findings) : text;
}

std::string causes_body(const ReportView& view) {
  std::string text;
  for (const CaseView* one : told_in_full(view)) {
    const auto& judgement = one->record.judgement;
    if (judgement && !judgement->findings.empty()) text += causes_of_case(view, *one);
  }
  return text;
}

}  // namespace

Section causes() {
  return {"Root cause", &causes_body, false};
}

}  // namespace reports::section
