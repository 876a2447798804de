// The gradient ledger in one sentence a rank.
#include <algorithm>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

std::string sentence(const Arrivals& rank) {
  std::string text = "- rank " + std::to_string(rank.rank) + ": " + std::to_string(rank.once) +
                     " of " + std::to_string(rank.parameters) + " parameters arrived in " +
                     counted(rank.steps, "step") + ", each ready once";
  if (rank.others.empty()) return text + "\n";
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> named;
  for (std::size_t i = 0; i < std::min(rank.others.size(), kMostNamed); ++i) {
    named.push_back(escape(rank.others[i]));
  }
  text += "; not so: " + nsa::join(named);
  if (rank.others.size() > kMostNamed)
    text += " and " + std::to_string(rank.others.size() - kMostNamed) + " more";
  return text + "\n";
}

std::string body(const ReportView& view) {
  std::string text;
  for (const CaseView& one : view.cases) {
    if (one.arrivals.empty()) continue;
    text += case_name(view, one) + ":\n\n";
    for (const Arrivals& rank : one.arrivals) text += sentence(rank);
    text += "\n";
  }
  return text;
}

}  // namespace

Section ledger() {
  return {"Gradient ledger", &body, false};
}

}  // namespace reports::section
