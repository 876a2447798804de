#include "reports/sections/summary_groups.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "reports/markdown.h"
#include "reports/sections/by_scenario.h"
#include "reports/sections/failures.h"
#include "reports/sections/wording.h"

namespace reports {
namespace {

using harness::Outcome;

struct Bullet {  // cases that have all of this in common
  Outcome outcome = Outcome::pass;
  std::string reason;   // "" of what passed: the table of results has it
  std::string planted;  // "" where the reason is about the machine or the plan
  bool found = false;   // passed because what was expected was found
  bool trial = false;   // of a bisection: its outcome is a step of the search
  Cases cases;

  [[nodiscard]] bool passed() const { return outcome == Outcome::pass; }
  [[nodiscard]] bool limited() const {
    return passed() || outcome == Outcome::skip || outcome == Outcome::xfail;
  }
  [[nodiscard]] auto common() const {  // beside the scenario
    return std::tuple(severity(outcome), reason, planted, found, trial);
  }
};

Bullet bullet_of(const CaseView& one) {
  const Telling telling = telling_of(one);
  Bullet bullet;
  bullet.outcome = one.outcome();
  bullet.found = telling == Telling::found;
  bullet.trial = is_trial(one);
  if (!bullet.passed()) bullet.reason = one.reason();
  if (!bullet.found && telling != Telling::not_run) bullet.planted = one.planted();
  bullet.cases = {&one};
  return bullet;
}

// Cases of one scenario, in the order of the report.
template <typename Wanted>
std::vector<Bullet> of_scenarios(const ReportView& view, const Wanted& wanted) {
  std::vector<Bullet> bullets;
  std::map<std::pair<std::string, decltype(Bullet().common())>, std::size_t> known;
  for (const CaseView& one : view.cases) {
    if (!wanted(one)) continue;
    const Bullet bullet = bullet_of(one);
    const auto [at, is_new] =
        known.try_emplace(std::pair(one.record.scenario, bullet.common()), bullets.size());
    if (is_new) {
      bullets.push_back(bullet);
    } else {
      bullets[at->second].cases.push_back(&one);
    }
  }
  return bullets;
}

// Of scenarios that passed, those of several cases stay alone: how many of them ran is worth a line.
bool may_join(const Bullet& bullet) {
  return !bullet.passed() || bullet.cases.size() == 1;
}

// Where many scenarios have all in common they are one bullet, at the place of the first of them.
std::vector<Bullet> joined(const std::vector<Bullet>& bullets) {
  constexpr std::size_t kMany = 4;  // up to three are as quickly read one by one
  std::map<decltype(Bullet().common()), std::size_t> scenarios;
  for (const Bullet& bullet : bullets) {
    if (may_join(bullet)) ++scenarios[bullet.common()];
  }
  std::vector<Bullet> result;
  std::map<decltype(Bullet().common()), std::size_t> known;
  for (const Bullet& bullet : bullets) {
    if (may_join(bullet) && scenarios[bullet.common()] >= kMany) {
      const auto [at, is_new] = known.try_emplace(bullet.common(), result.size());
      if (!is_new) {
        Cases& cases = result[at->second].cases;
        cases.insert(cases.end(), bullet.cases.begin(), bullet.cases.end());
        continue;
      }
    }
    result.push_back(bullet);
  }
  return result;
}

std::string text_of(const ReportView& view, const Bullet& bullet) {
  constexpr std::size_t kFewNames = 6;  // of what is well, or not meant to run here
  const bool several = by_scenario(bullet.cases).size() > 1;
  std::string text = "- " + outcome_text(bullet.outcome) + " " +
                     (several ? count_text(bullet.cases) : group_name(view, bullet.cases));
  if (!bullet.planted.empty()) text += " (with the planted fault " + escape(bullet.planted) + ")";
  if (bullet.trial) text += ", of a bisection";
  if (bullet.found) {
    text += several ? ": what each of them expects was found" : ": what it expects was found";
  }
  if (!bullet.reason.empty()) text += ": " + escape(bullet.reason);
  if (several) {
    const std::size_t most = bullet.limited() ? kFewNames : bullet.cases.size();
    text += " (" + scenarios_text(bullet.cases, most) + ")";
  }
  return text + "\n";
}

template <typename Wanted>
std::string groups(const ReportView& view, const Wanted& wanted) {
  constexpr std::size_t kMostBullets = 20;  // of one outcome, where they are limited
  std::vector<Bullet> bullets = joined(of_scenarios(view, wanted));
  std::stable_sort(bullets.begin(), bullets.end(), [](const Bullet& a, const Bullet& b) {
    return severity(a.outcome) < severity(b.outcome);
  });
  std::string text;
  std::map<Outcome, std::size_t> written;
  std::map<Outcome, Cases> left_out;
  for (const Bullet& bullet : bullets) {
    if (!bullet.limited() || ++written[bullet.outcome] <= kMostBullets) {
      text += text_of(view, bullet);
      continue;
    }
    Cases& rest = left_out[bullet.outcome];
    rest.insert(rest.end(), bullet.cases.begin(), bullet.cases.end());
  }
  for (const auto& [outcome, cases] : left_out) {
    text += "- " + outcome_text(outcome) + " and " + count_text(cases) + " more: see Results\n";
  }
  return text;
}

}  // namespace

std::string open_groups(const ReportView& view) {
  return groups(view, [](const CaseView& one) {
    return one.outcome() != Outcome::pass && !is_failure(one.outcome()) && !is_trial(one);
  });
}

std::string passed_groups(const ReportView& view) {
  return groups(view, [](const CaseView& one) { return one.outcome() == Outcome::pass; });
}

}  // namespace reports
