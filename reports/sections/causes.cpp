// Root cause: what follows from each initiating finding, and what could not be judged because of it. The finding itself stands
// with its words under Critical findings.
#include <algorithm>

#include "reports/markdown.h"
#include "reports/sections/alike.h"
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

// A consequence has a higher number than its cause. Of what a judgement without numbers calls a consequence, the first
// finding is the cause.
bool follows(const Finding& effect, const Finding& cause, const std::vector<Finding>& all) {
  if (effect.role != Role::cascade) return false;
  if (effect.follows <= 0) return &cause == &all.front();
  return effect.follows == cause.number && effect.number > cause.number;
}

std::string diagram(const std::vector<Finding>& findings) {
  std::string text = "flowchart TD\n";
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (findings[i].role != Role::initiating && findings[i].role != Role::cascade) continue;
    text += "    f" + std::to_string(i) + "[\"" + node_text(findings[i]) + "\"]\n";
    for (std::size_t cause = 0; cause < i; ++cause) {
      if (!follows(findings[i], findings[cause], findings)) continue;
      text += "    f" + std::to_string(cause) + " --> f" + std::to_string(i) + "\n";
    }
  }
  return code_block(text, "mermaid") + "\n";
}

std::string bullet(const std::string& indent, const std::string& text) {
  return indent + "- " + text + "\n";
}

std::string told(const Finding& finding) {
  return finding_title(finding) + ": " + escape(finding.statement);
}

// Bullets under the bullet `title`; nothing where there are none.
std::string under(const std::string& indent,
                  const std::string& title,
                  const std::vector<std::string>& texts) {
  if (texts.empty()) return "";
  std::string lines = bullet(indent, title + ":");
  for (const std::string& text : texts) lines += bullet(indent + "  ", text);
  return lines;
}

std::vector<std::string> of_role(const std::vector<Finding>& findings, Role role) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings) {
    if (finding.role == role) texts.push_back(told(finding));
  }
  return texts;
}

// What follows from it, and from that, each with its tie.
std::vector<std::string> consequences(const std::vector<Finding>& findings, const Finding& cause) {
  std::vector<std::string> texts;
  for (const Finding& effect : findings) {
    if (!follows(effect, cause, findings)) continue;
    texts.push_back(told(effect) + (effect.tie.empty() ? "" : " (" + escape(effect.tie) + ")"));
    if (effect.number <= 0) continue;
    for (std::string& further : consequences(findings, effect)) texts.push_back(std::move(further));
  }
  return texts;
}

std::vector<std::string> not_judged(const Finding& finding) {
  std::vector<std::string> texts;
  for (const harness::NotJudged& lacking : finding.not_judged) {
    texts.push_back(escape(lacking.check + ": " + lacking.what));
  }
  return texts;
}

std::string of_cause(const std::vector<Finding>& findings,
                     const Finding& cause,
                     const std::string& title) {
  std::string text = bullet("", title + " " + finding_title(cause));
  text += under("  ", "what follows from it", consequences(findings, cause));
  return text + under("  ", "what could not be judged because of it", not_judged(cause));
}

std::string causes_of_case(const CaseView& one) {
  if (!one.record.judgement || one.record.judgement->findings.empty()) return "";
  const std::vector<Finding>& findings = one.record.judgement->findings;
  const auto count = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.role == Role::initiating;
  });
  if (findings.size() < 2 && findings.front().not_judged.empty()) return "";
  std::string text;
  if (count == 0) text += "- no finding is the cause of the case\n";
  if (count > 1) {
    text += "- " + std::to_string(count) + " independent causes: nothing ties one to another\n";
  }
  std::int64_t number = 0;
  for (const Finding& finding : findings) {
    if (finding.role != Role::initiating) continue;
    const std::string title =
        count == 1 ? std::string("it begins with") : "cause " + std::to_string(++number) + ":";
    text += of_cause(findings, finding, title);
  }
  text += under("", "whose place is not known", of_role(findings, Role::unknown));
  text += under(
      "", "what the controller did itself to end the case", of_role(findings, Role::teardown));
  text += "\n";
  const bool has_cascade =
      std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
        return finding.role == Role::cascade;
      });
  return has_cascade && count > 0 ? text + diagram(findings) : text;
}

std::string causes_body(const ReportView& view) {
  return told_once(
      view, [&](const CaseView& one) { return case_name(view, one); }, &causes_of_case);
}

}  // namespace

Section causes() {
  return {"Root cause", &causes_body, false};
}

}  // namespace reports::section
