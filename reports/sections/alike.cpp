#include "reports/sections/alike.h"

#include <algorithm>
#include <vector>

#include "nsa/base/text.h"
#include "reports/sections/wording.h"

namespace reports {
namespace {

struct Alike {
  std::string told;
  std::vector<const CaseView*> cases;
};

void add(const CaseView& one, const std::string& told, std::vector<Alike>& all) {
  const auto same = std::find_if(all.begin(), all.end(), [&](const Alike& alike) {
    return alike.told == told && alike.cases.front()->outcome() == one.outcome();
  });
  if (same == all.end()) {
    all.push_back({told, {&one}});
  } else {
    same->cases.push_back(&one);
  }
}

}  // namespace

std::string told_once(const ReportView& view,
                      const std::function<std::string(const CaseView&)>& title,
                      const std::function<std::string(const CaseView&)>& tell) {
  std::vector<Alike> all;
  for (const CaseView* one : told_in_full(view)) {
    const std::string told = tell(*one);
    if (!told.empty()) add(*one, told, all);
  }
  std::string text;
  for (const Alike& alike : all) {
    text += "### " + title(*alike.cases.front()) + "\n\n" + alike.told;
    std::vector<std::string> names;
    for (std::size_t i = 1; i < alike.cases.size(); ++i) {
      names.push_back(case_name(view, *alike.cases[i]));
    }
    if (!names.empty()) text += "The same was found in " + nsa::join(names, ", ") + ".\n\n";
  }
  return text;
}

}  // namespace reports
