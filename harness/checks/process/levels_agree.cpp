// Does the case show the same however closely it is watched? Compares cases of one run that differ in the level of observation
// alone:
// how they ended, the losses of every step, the state after the last one. To watch closely is to wait for the device and to hold
// ranks up: a race or a hang may be gone where somebody looks.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "harness/checks/agreement.h"
#include "harness/checks/list.h"
#include "harness/checks/process/level_course.h"
#include "harness/checks/result.h"

namespace harness::checks {
namespace {

// On a CPU the same numbers are summed in the same order, whoever watches. On a device the order is not fixed: relative, as in
// same_losses.
constexpr double kSameOnDevice = 0x1p-7;

using Values = std::map<std::pair<int, std::int64_t>, std::string>;  // by rank and step

// "0 3 5.54" and "0 HASH", which is of no step.
Values values_of(const std::vector<std::string>& rows) {
  Values values;
  for (const std::string& row : rows) {
    const std::size_t first = row.find(' ');
    const std::size_t last = row.rfind(' ');
    if (first == std::string::npos) continue;
    const std::int64_t step = first == last ? 0 : std::atoll(row.c_str() + first);
    values[{std::atoi(row.c_str()), step}] = row.substr(last + 1);
  }
  return values;
}

std::string words_of(const OtherLevel& shown) {
  if (shown.end == "well") return "ended well";
  if (shown.end == "still") return "stood still, and the controller ended it";
  return "failed";
}

class Levels {
 public:
  explicit Levels(const Evidence& evidence) : evidence_(evidence) {}

  CheckResult judge() {
    if (evidence_.other_levels.empty()) {
      return inconclusive("no other level of observation was recorded");
    }
    const auto own = shown_at_level(evidence_);
    if (!own) return inconclusive("it is not known how the case ended");
    for (const auto& row : evidence_.other_levels) compare(*own, row.row);
    return result_.finish(summary(*own));
  }

 private:
  void compare(const OtherLevel& own, const OtherLevel& other) {
    levels_.insert(other.observe);
    for (const OtherLevel* one : {&own, &other}) {
      if (one->end != "budget") continue;
      result_.missing("the end at observe " + std::to_string(one->observe) +
                      ", whose time was over before");
      return;
    }
    if (own.end != other.end) {
      Finding finding = effect("end", own, other);
      std::set<int> ranks(own.ranks.begin(), own.ranks.end());
      ranks.insert(other.ranks.begin(), other.ranks.end());
      finding.site.ranks = to_ints(ranks);
      finding.facts["end"] = words_of(own);
      finding.facts["other_end"] = words_of(other);
      result_.found(std::move(finding));
      return;
    }
    if (own.end == "well") demand(own, other);
    if (!compare_losses(own, other)) compare_states(own, other);
  }

  // What both levels record.
  void demand(const OtherLevel& own, const OtherLevel& other) {
    const bool losses = std::min(own.observe, other.observe) >= kWatchEvents;
    const bool states = evidence_.the_case.scenario.trains();
    for (const OtherLevel* one : {&own, &other}) {
      const std::string level = " at observe " + std::to_string(one->observe);
      if (losses && one->losses.empty()) result_.missing("the losses" + level);
      if (states && one->parameters.empty()) result_.missing("the last state" + level);
    }
  }

  // True where they differ: all that comes after follows from it.
  bool compare_losses(const OtherLevel& own, const OtherLevel& other) {
    const Values of_other = values_of(other.losses);
    std::set<int> ranks;
    std::int64_t step = 0;
    Finding finding = effect("loss", own, other);
    for (const auto& [place, found] : values_of(own.losses)) {
      const auto wanted = of_other.find(place);
      if (wanted == of_other.end()) continue;
      const Said said =
          agree(number(found), number(wanted->second), on_device() ? kSameOnDevice : 0);
      if (said == Said::not_finite) {
        lacks("a finite loss", place.first, place.second, own, other);
        continue;
      }
      ++losses_;
      if (said == Said::equal) continue;
      if (ranks.empty() || place.second < step) {
        step = place.second;
        finding.facts["loss"] = found;
        finding.facts["other_loss"] = wanted->second;
      }
      ranks.insert(place.first);
    }
    if (ranks.empty()) {
      demand_the_same_places(values_of(own.losses), of_other, "the loss", own, other);
      return false;
    }
    finding.site.ranks = to_ints(ranks);
    finding.site.step = step;
    result_.found(std::move(finding));
    return true;
  }

  void compare_states(const OtherLevel& own, const OtherLevel& other) {
    if (on_device()) return;
    const Values of_other = values_of(other.parameters);
    std::set<int> ranks;
    for (const auto& [place, found] : values_of(own.parameters)) {
      const auto wanted = of_other.find(place);
      if (wanted == of_other.end()) continue;
      const Said said = agree(Held::hash(found), Held::hash(wanted->second));
      if (said == Said::unread) {
        lacks("the hash of the last state", place.first, 0, own, other);
        continue;
      }
      ++states_;
      if (said == Said::differ) ranks.insert(place.first);
    }
    if (ranks.empty())
      return demand_the_same_places(
          values_of(own.parameters), of_other, "the last state", own, other);
    Finding finding = effect("state", own, other);
    finding.site.ranks = to_ints(ranks);
    finding.site.step = evidence_.the_case.scenario.training.steps;
    result_.found(std::move(finding));
  }

  // Of two cases that ended well both have all of them: what one alone has was compared with nothing.
  void demand_the_same_places(const Values& mine,
                              const Values& others,
                              const char* what,
                              const OtherLevel& own,
                              const OtherLevel& other) {
    if (own.end != "well" || other.observe < kWatchEvents || own.observe < kWatchEvents) return;
    for (const auto& [one, two] : {std::pair(&mine, &others), std::pair(&others, &mine)}) {
      for (const auto& [place, value] : *one) {
        if (two->count(place) == 0) lacks(what, place.first, place.second, own, other);
      }
    }
  }

  void lacks(const char* what,
             int rank,
             std::int64_t step,
             const OtherLevel& own,
             const OtherLevel& other) {
    result_.missing(std::string(what) + " of " + process_name(rank) +
                        (step > 0 ? ", step " + std::to_string(step) : "") +
                        " at both of observe " + std::to_string(own.observe) + " and " +
                        std::to_string(other.observe),
                    site_of_rank(rank));
  }

  [[nodiscard]] static Held number(const std::string& text) {
    return Held::of(std::strtod(text.c_str(), nullptr));
  }

  [[nodiscard]] bool on_device() const {
    return evidence_.the_case.scenario.parallel.device == nsa::Device::cuda;
  }

  [[nodiscard]] static Finding effect(const char* variant,
                                      const OtherLevel& own,
                                      const OtherLevel& other) {
    Finding finding = make_finding("OBSERVER.EFFECT", variant);
    const auto levels = std::minmax(own.observe, other.observe);
    finding.site.detail["levels"] = {levels.first, levels.second};
    finding.facts["observe"] = own.observe;
    finding.facts["other"] = other.observe;
    return finding;
  }

  [[nodiscard]] std::string summary(const OtherLevel& own) const {
    std::string text =
        "at observe " + std::to_string(own.observe) + " the case ended as at observe";
    for (const int level : levels_) text += " " + std::to_string(level);
    if (losses_ > 0) text += ", with " + std::to_string(losses_) + " equal losses";
    if (states_ > 0) text += ", with " + counted(states_, "equal state") + " after the last step";
    return text;
  }

  const Evidence& evidence_;
  std::set<int> levels_;
  std::int64_t losses_ = 0;
  std::int64_t states_ = 0;
  ResultBuilder result_;
};

}  // namespace

Check levels_agree() {
  return {"levels_agree",
          "the case ends alike and computes the same however closely it is watched",
          {"OBSERVER.EFFECT"},
          [](const Evidence& evidence) { return Levels(evidence).judge(); },
          kWatchProcesses};
}

}  // namespace harness::checks
