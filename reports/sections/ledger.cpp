// The gradient ledger in one sentence a rank; of cases that passed a long report tells equal sentences once.
#include <algorithm>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

// Without its line break.
std::string sentence(const harness::Arrivals& rank) {
  std::string text = "- rank " + std::to_string(rank.rank) + ": " + std::to_string(rank.once) +
                     " of " + std::to_string(rank.parameters) + " parameters arrived in " +
                     counted(rank.steps, "step") + ", each ready once";
  if (rank.others.empty()) return text;
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> named;
  for (std::size_t i = 0; i < std::min(rank.others.size(), kMostNamed); ++i) {
    named.push_back(escape(rank.others[i]));
  }
  text += "; not so: " + nsa::join(named);
  if (rank.others.size() > kMostNamed)
    text += " and " + std::to_string(rank.others.size() - kMostNamed) + " more";
  return text;
}

std::string ledger_of_case(const ReportView& view, const CaseView& one) {
  if (one.digest().arrivals.empty()) return "";
  std::string text = case_name(view, one) + ":\n\n";
  for (const harness::Arrivals& rank : one.digest().arrivals) text += sentence(rank) + "\n";
  return text + "\n";
}

std::string ledger_of_group(const ReportView& view, const Cases& group) {
  std::vector<std::pair<std::string, std::size_t>> sentences;  // and how many cases have it
  for (const CaseView* one : group) {
    for (const harness::Arrivals& rank : one->digest().arrivals) {
      const std::string text = sentence(rank);
      auto at = std::find_if(sentences.begin(), sentences.end(), [&](const auto& known) {
        return known.first == text;
      });
      if (at == sentences.end()) at = sentences.insert(at, {text, 0});
      ++at->second;
    }
  }
  if (sentences.empty()) return "";
  std::string text = titled(view, group) + ":\n\n";
  for (const auto& [sentence, cases] : sentences) {
    text += sentence;
    if (cases < group.size())
      text += " (" + counted(static_cast<std::int64_t>(cases), "case") + ")";
    text += "\n";
  }
  return text + "\n";
}

std::string ledger_body(const ReportView& view) {
  return told(view,
              "Gradient ledger of what passed or is known to fail",
              &ledger_of_case,
              &ledger_of_group);
}

}  // namespace

Section ledger() {
  return {"Gradient ledger", &ledger_body, false};
}

}  // namespace reports::section
