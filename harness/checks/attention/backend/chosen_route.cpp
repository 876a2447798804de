#include "harness/checks/attention/backend/chosen_route.h"

namespace harness::checks {

ChosenRoute::ChosenRoute(const Evidence& evidence, int process)
    : route_(evidence.the_case.scenario.route) {
  for (const auto& row : evidence.route_choices) {
    const auto asked = route_.find(row.row.seam);
    const bool automatic = asked != route_.end() && asked->second == kAutomatic;
    if (row.process != process || !automatic) continue;
    Choice& choice = choices_[row.row.seam];
    if (row.row.passed_over.empty()) {
      choice.taken = row.row.implementation;
      continue;
    }
    const std::string why = row.row.implementation + " (" + row.row.passed_over + ")";
    if (choice.passed_over.find(why) != std::string::npos) continue;  // a model was made again
    choice.passed_over += (choice.passed_over.empty() ? "" : ", ") + why;
  }
  for (const auto& [seam, choice] : choices_) {
    if (!choice.taken.empty()) route_[seam] = choice.taken;
  }
}

bool ChosenRoute::is_automatic(const std::string& seam) const {
  const auto asked = route_.find(seam);
  return choices_.contains(seam) || (asked != route_.end() && asked->second == kAutomatic);
}

std::string ChosenRoute::taken(const std::string& seam) const {
  const auto found = choices_.find(seam);
  if (found == choices_.end()) return "";
  const Choice& choice = found->second;
  return choice.passed_over.empty() ? choice.taken
                                    : choice.taken + " and passed over " + choice.passed_over;
}

}  // namespace harness::checks
