#include "harness/run/looks/look_history.h"

#include <algorithm>

namespace harness {

void LookHistory::heard(const Event& event) {
  if (event.kind == Phase::kKind) phase_ = event.body.get<Phase>().phase;
  if (event.kind == Collective::kKind) {
    const auto row = event.body.get<Collective>();
    open_.insert({row.group, row.sequence});
  } else if (event.kind == CollectiveDone::kKind) {
    const auto row = event.body.get<CollectiveDone>();
    open_.erase({row.group, row.sequence});
  }
}

void LookHistory::sampled(std::int64_t switches, std::int64_t t_ms) {
  constexpr std::int64_t kKeptMs =
      8'000;  // less than the least time without movement that a look follows
  if (switches < 0) return;
  sampled_.emplace_back(t_ms, switches);
  while (t_ms - sampled_.front().first > kKeptMs) sampled_.pop_front();
}

std::int64_t LookHistory::woke(std::int64_t still_since_ms, std::int64_t t_ms) const {
  constexpr std::int64_t kLeastMs = 4'000;  // of a shorter time too little is known
  const auto from = std::find_if(sampled_.begin(), sampled_.end(), [&](const auto& sample) {
    return sample.first > still_since_ms;
  });
  if (from == sampled_.end() || t_ms - from->first < kLeastMs) return 0;
  return sampled_.back().second - from->second;
}

void LookHistory::clear() {
  looks_ = {};
  silent_before_.reset();
  recorded_ = true;
}

void LookHistory::take(Observation seen, std::int64_t t_ms) {
  const int number = seen.look;
  newest_is_silent_ = number > 1;
  if (newest_is_silent_) return take_silent({t_ms, std::move(seen)});
  looks_.at(static_cast<std::size_t>(number)) = {t_ms, std::move(seen)};
  if (number == 0) looks_[1].reset();
}

// The first of them is where wake-ups are counted from: what was before it was woken by the signal that asked for stacks. A
// process that did something else than sleep begins anew, since a computation gives up the processor as often as it likes.
void LookHistory::take_silent(Taken look) {
  recorded_ = false;
  std::optional<Taken>& newest = looks_[3] ? looks_[3] : looks_[2];
  if (!newest) {
    silent_before_.reset();
    looks_[2] = std::move(look);
    looks_[2]->seen.look = 2;
    return;
  }
  silent_before_ = *newest;
  const std::int64_t wall_ms = look.t_ms - newest->t_ms;
  if (doing_between(newest->seen, look.seen, wall_ms) == Doing::sleeping) {
    looks_[3] = std::move(look);
    looks_[3]->seen.look = 3;
  } else {
    looks_[2] = std::move(look);
    looks_[2]->seen.look = 2;
    looks_[3].reset();
  }
}

Looked LookHistory::newest() const {
  Looked looked;
  looked.with_peers = !open_.empty() || phase_ == "rendezvous";
  looked.held = held_;
  const std::optional<Taken>& after =
      newest_is_silent_ ? (looks_[3] ? looks_[3] : looks_[2]) : looks_[1];
  const std::optional<Taken>& before = newest_is_silent_ ? silent_before_ : looks_[0];
  looked.polls_ms = polls_ms_;
  if (looks_[2] && looks_[3]) {
    looked.wake_ups = wake_ups_between(looks_[2]->seen, looks_[3]->seen);
    looked.polled_ms = looks_[3]->t_ms - looks_[2]->t_ms;
  }
  if (!before || !after) return looked;
  looked.before = &before->seen;
  looked.after = &after->seen;
  looked.wall_ms = after->t_ms - before->t_ms;
  looked.connecting = phase_ == "rendezvous" && is_inside_nccl(after->seen);
  return looked;
}

std::vector<LookHistory::Taken> LookHistory::unrecorded() {
  std::vector<Taken> all;
  if (!recorded_) {
    for (const std::size_t i : {std::size_t{2}, std::size_t{3}}) {
      if (looks_.at(i)) all.push_back(*looks_.at(i));
    }
  }
  recorded_ = true;
  return all;
}

}  // namespace harness
