#include "harness/run/supervisor.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "nsa/base/text.h"

namespace harness {
namespace {

// decide() is due several times a second. When it comes later, the controller itself was held up (a slow disk, a busy
// machine), and what it could not read meanwhile must not count as stillness.
constexpr std::int64_t kDueMs = 1'000;

// Rows that a thread other than the training thread writes: they tell nothing about progress.
bool tells_progress(std::string_view kind) {
  constexpr std::array<std::string_view, 3> kSilent = {
      Heartbeat::kKind, Observation::kKind, Fact::kKind};
  return std::find(kSilent.begin(), kSilent.end(), kind) == kSilent.end();
}

std::string seconds_text(std::int64_t ms) {
  return nsa::to_text(static_cast<double>(ms) / 1000.0, 3) + " s";
}

}  // namespace

Supervisor::Supervisor(const SupervisorLimits& limits, std::int64_t now_ms)
    : limits_(limits), started_ms_(now_ms), last_moved_ms_(now_ms), last_decided_ms_(now_ms) {}

void Supervisor::started(int process, std::int64_t now_ms) {
  workers_[process] = Worker{};
  moved(now_ms);
}

void Supervisor::heard(const Event& event, std::int64_t now_ms) {
  Worker& worker = workers_[event.process];
  if (!worker.live) return;
  if (event.kind == Hello::kKind) worker.said_hello = true;
  if (event.kind == Phase::kKind) worker.phase = event.body.get<Phase>().phase;
  if (tells_progress(event.kind)) moved(now_ms);
  if (event.kind != Heartbeat::kKind) return;
  const auto beat = event.body.get<Heartbeat>();
  worker.said_hello = true;
  worker.phase = beat.phase;
  std::int64_t& longest = longest_gaps_[beat.phase];
  longest = std::max(longest, beat.longest_gap_ms);
  if (beat.counters.moved() != worker.moved) moved(now_ms);
  worker.moved = beat.counters.moved();
}

void Supervisor::seen(int process, char state, std::int64_t cpu_ms, std::int64_t now_ms) {
  Worker& worker = workers_[process];
  if (!worker.live) return;
  worker.held = state == 'T' || state == 't';
  const bool loading =
      !worker.said_hello && now_ms - started_ms_ < limits_.loading_floors * limits_.still.floor_ms;
  if (loading && cpu_ms > worker.cpu_ms) moved(now_ms);
  worker.cpu_ms = cpu_ms;
}

void Supervisor::ended(int process, bool well, const std::string& how, std::int64_t now_ms) {
  workers_[process].live = false;
  moved(now_ms);
  if (!well && !bad_end_) bad_end_ = BadEnd{process, how, now_ms};
}

void Supervisor::looked(bool still, std::int64_t now_ms) {
  look_taken_ = true;
  looks_still_ = still;
  look_ms_ = now_ms;
}

bool Supervisor::all_ended() const {
  return std::none_of(
      workers_.begin(), workers_.end(), [](const auto& entry) { return entry.second.live; });
}

void Supervisor::forgive_own_delay(std::int64_t now_ms) {
  const std::int64_t late_ms = now_ms - last_decided_ms_ - kDueMs;
  if (late_ms > 0) last_moved_ms_ = std::min(now_ms, last_moved_ms_ + late_ms);
  last_decided_ms_ = now_ms;
}

std::int64_t Supervisor::longest_gap_ms() const {
  std::int64_t longest = 0;
  for (const auto& [process, worker] : workers_) {
    const auto at = longest_gaps_.find(worker.phase);
    if (worker.live && at != longest_gaps_.end()) longest = std::max(longest, at->second);
  }
  return longest;
}

std::int64_t Supervisor::threshold_ms() const {
  if (hopeless_) return std::min(limits_.hopeless_floor_ms, limits_.still.floor_ms);
  // A process that is held cannot move, however long its steps are: waiting longer for it tells nothing more.
  const bool held = std::any_of(workers_.begin(), workers_.end(), [](const auto& entry) {
    return entry.second.live && entry.second.held;
  });
  if (held) return limits_.still.floor_ms;
  return limits_.still.after_ms(longest_gap_ms());
}

std::int64_t Supervisor::apart_ms() const {
  const std::int64_t usual_ms = limits_.look_apart_ms;
  return hopeless_ ? std::min(limits_.hopeless_apart_ms, usual_ms) : usual_ms;
}

bool Supervisor::out_of_budget(std::int64_t now_ms) const {
  return limits_.budget_ms > 0 && now_ms - started_ms_ > limits_.budget_ms;
}

bool Supervisor::moved_since_suspected() const {
  return reason_ == Reason::still && last_moved_ms_ > suspected_ms_;
}

std::optional<Supervisor::Reason> Supervisor::reason_to_act(std::int64_t now_ms) const {
  if (interrupted_by_ != 0) return Reason::interrupted;
  if (bad_end_ && now_ms - bad_end_->at_ms >= limits_.peer_grace_ms) return Reason::peer_ended;
  if (now_ms - last_moved_ms_ > threshold_ms()) return Reason::still;
  if (out_of_budget(now_ms)) return Reason::budget;
  return std::nullopt;
}

// Reasons that end the case after one look, whatever is going on.
bool Supervisor::urgent(std::int64_t now_ms) const {
  const std::optional<Reason> reason = reason_to_act(now_ms);
  return reason == Reason::interrupted || reason == Reason::peer_ended;
}

Decision Supervisor::decide(std::int64_t now_ms) {
  forgive_own_delay(now_ms);
  if (state_ == State::stopped || all_ended()) return {};
  switch (state_) {
    case State::watching:
      if (const auto reason = reason_to_act(now_ms)) return suspect(*reason, now_ms);
      return {};
    case State::taking_look: return look_taken_ ? after_look(now_ms) : Decision{};
    case State::between_looks:
      if (urgent(now_ms)) return suspect(*reason_to_act(now_ms), now_ms);
      if (moved_since_suspected()) return go_on(now_ms);
      if (now_ms - look_ms_ >= apart_ms()) return begin_look(1);
      return {};
    case State::slow: return while_slow(now_ms);
    case State::stopped: break;
  }
  return {};
}

Decision Supervisor::begin_look(int look) {
  state_ = State::taking_look;
  look_ = look;
  look_taken_ = false;
  Decision decision;
  decision.kind = Decision::Kind::look;
  decision.look = look;
  decision.wait_for_stacks = reason_ != Reason::interrupted && look < 2;
  return decision;
}

Decision Supervisor::suspect(Reason reason, std::int64_t now_ms) {
  reason_ = reason;
  suspected_ms_ = now_ms;
  Decision decision = begin_look(0);
  if (reason == Reason::still) {
    decision.suspect = Suspect{
        now_ms - last_moved_ms_, threshold_ms(), longest_gap_ms(), limits_.still.polls_ms};
  }
  return decision;
}

Decision Supervisor::after_look(std::int64_t now_ms) {
  if (reason_ == Reason::interrupted || reason_ == Reason::peer_ended) return stop(reason_, now_ms);
  if (urgent(now_ms)) return stop(*reason_to_act(now_ms), now_ms);
  if (moved_since_suspected()) return go_on(now_ms);
  if (look_ == 0) {
    state_ = State::between_looks;
    return {};
  }
  if (reason_ == Reason::budget) return stop(reason_, now_ms);
  // Later looks have no stacks: what they show is looked at once more with stacks before anything is ended.
  if (looks_still_) return look_ == 1 ? stop(reason_, now_ms) : begin_look(0);
  state_ = State::slow;
  return {};
}

// Nothing moves, and yet it is no standstill.
Decision Supervisor::while_slow(std::int64_t now_ms) {
  if (urgent(now_ms)) return suspect(*reason_to_act(now_ms), now_ms);
  if (moved_since_suspected()) return go_on(now_ms);
  if (out_of_budget(now_ms)) return suspect(Reason::budget, now_ms);
  if (now_ms - look_ms_ < limits_.look_apart_ms) return {};
  return begin_look(2);
}

Decision Supervisor::go_on(std::int64_t now_ms) {
  state_ = State::watching;
  Decision decision;
  decision.fact = Fact{"moved_again_ms", std::to_string(now_ms - suspected_ms_)};
  return decision;
}

Decision Supervisor::stop(Reason reason, std::int64_t now_ms) {
  constexpr std::array<const char*, 4> kNames = {"still", "budget", "peer_ended", "interrupted"};
  state_ = State::stopped;
  Decision decision;
  decision.kind = Decision::Kind::stop;
  decision.stopped = {kNames.at(static_cast<std::size_t>(reason)), detail(reason, now_ms), now_ms};
  return decision;
}

std::string Supervisor::detail(Reason reason, std::int64_t now_ms) const {
  switch (reason) {
    case Reason::still:
      return "no counter of any live process moved for " + seconds_text(now_ms - last_moved_ms_);
    case Reason::budget:
      return "budget of " + seconds_text(limits_.budget_ms) + " exceeded, last movement " +
             seconds_text(now_ms - last_moved_ms_) + " ago";
    case Reason::peer_ended:
      return process_name(bad_end_->process) + " " + bad_end_->how + " " +
             seconds_text(now_ms - bad_end_->at_ms) + " ago, its peers had not ended";
    case Reason::interrupted: return "signal " + std::to_string(interrupted_by_);
  }
  return "";
}

}  // namespace harness
