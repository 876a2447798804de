#include "harness/cli/running/standing_line.h"

#include "harness/checks/process/rank_state.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

std::string seconds(std::int64_t ms) {
  constexpr std::int64_t kSecondMs = 1'000;
  return std::to_string((ms + kSecondMs / 2) / kSecondMs) + " s";
}

}  // namespace

void StandingLine::on_event(const Event& event) {
  if (event.process != kController) return;
  if (event.kind == Suspect::kKind) {
    still_ms_ = event.body.get<Suspect>().still_ms;
  } else if (event.kind == Fact::kKind) {
    const auto fact = event.body.get<Fact>();
    if (fact.name != "moved_again_ms" || !stands_) return;
    stands_ = false;
    moved_ = "it moves again, after " + seconds(still_ms_ + nsa::parse_int(fact.value).value_or(0));
  } else if (event.kind == Observation::kKind) {
    auto look = event.body.get<Observation>();
    if (look.look > 1 || (look.look != kAskedLook && !unasked_)) return;
    if (!fresh_) looked_.observations.clear();
    fresh_ = true;
    asked_ = look.look == kAskedLook;
    look.look = 0;
    looked_.observations.push_back({event.process, event.t_ms, look});
  }
}

void StandingLine::on_tick() {
  if (!moved_.empty()) tell_(std::exchange(moved_, ""));
  if (!fresh_) return;
  fresh_ = false;
  const std::string now = checks::standing(looked_);
  const std::string places = checks::standing(looked_, false);
  if (now.empty() || (places == told_ && !asked_)) return;
  if (asked_) {
    tell_(now);
  } else {
    told_ = places;
    stands_ = true;
    tell_("nothing has moved for " + seconds(still_ms_) + ". " + now +
          " It goes on; this is no verdict yet.");
  }
}

}  // namespace harness::cli
