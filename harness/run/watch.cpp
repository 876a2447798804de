#include "harness/run/watch.h"

#include <future>
#include <utility>

#include "harness/run/looks/proc_look.h"

namespace harness {
namespace {

constexpr std::int64_t kSampleMs = 500;    // between two readings of /proc/PID/stat
constexpr std::int64_t kAnswerMs = 1'000;  // a worker samples its threads in 0.5 s at most
constexpr std::int64_t kFarMs = 2'000;     // more, for a look at another host and its way back

}  // namespace

Watch::Watch(const SupervisorLimits& limits,
             std::int64_t origin_ms,
             EventSink& sink,
             AskForStacks ask)
    : supervisor_(limits, monotonic_ms() - origin_ms),
      polls_ms_(limits.still.polls_ms),
      origin_ms_(origin_ms),
      sink_(sink),
      ask_(std::move(ask)) {}

void Watch::started(int process, pid_t pid, Outside& outside) {
  Member& member = members_[process] = Member{};
  member.outside = &outside;
  member.looks.bears_polls_for(polls_ms_);
  supervisor_.started(process, now_ms());
  record(Started{process, pid});
}

void Watch::heard(int process, const Event& event) {
  supervisor_.heard(event, now_ms());
  if (const auto at = members_.find(process); at != members_.end()) at->second.looks.heard(event);
}

bool Watch::take_answer(int process, const Event& event) {
  if (look_ == nullptr || look_->awaited.erase(process) == 0) return false;
  const auto seen = look_->seen.find(process);
  if (seen != look_->seen.end()) merge_frames(seen->second, event.body.get<Observation>());
  return true;
}

void Watch::take_look(int process, Observation seen) {
  if (look_ == nullptr || look_->awaited_looks.erase(process) == 0) return;
  seen.process_observed = process;
  seen.look = look_->number;
  look_->seen[process] = std::move(seen);
}

void Watch::held(int process, bool is) {
  if (const auto at = members_.find(process); at != members_.end()) at->second.looks.held(is);
}

void Watch::ended(int process, bool well, const std::string& how) {
  members_.erase(process);
  if (look_ != nullptr) {
    look_->awaited.erase(process);
    look_->awaited_looks.erase(process);
  }
  supervisor_.ended(process, well, how, now_ms());
}

std::optional<Stopped> Watch::step() {
  sample_states();
  collect_look();
  const Decision decision = supervisor_.decide(now_ms());
  const bool looks_on = decision.kind == Decision::Kind::look && decision.look > 1;
  if (decision.fact || (decision.kind != Decision::Kind::nothing && !looks_on)) {
    record_silent_looks();
  }
  if (decision.suspect) {
    record(*decision.suspect);
    for (auto& [process, member] : members_) member.looks.clear();
  }
  if (decision.fact) record(*decision.fact);
  if (decision.kind == Decision::Kind::look) begin_look(decision);
  if (decision.kind != Decision::Kind::stop) return std::nullopt;
  record(decision.stopped);
  return decision.stopped;
}

void Watch::sample_states() {
  if (now_ms() - sampled_ms_ < kSampleMs) return;
  sampled_ms_ = now_ms();
  for (auto& [process, member] : members_) {
    if (const auto state = member.outside->state()) {
      supervisor_.seen(process, state->state, state->cpu_ms, now_ms());
      member.looks.sampled(state->switches, now_ms());
    }
  }
}

std::set<int> Watch::ask_for_stacks(std::map<int, Observation>& seen) {
  std::vector<std::pair<int, std::future<bool>>> at_once;
  for (auto& [process, answer] : seen) {
    auto ask = [this, number = process, to = &answer] { return ask_(number, *to); };
    at_once.emplace_back(process, std::async(std::launch::async, ask));
  }
  std::set<int> later;
  for (auto& [process, asked] : at_once) {
    if (asked.get()) later.insert(process);
  }
  return later;
}

void Watch::begin_look(const Decision& decision) {
  look_ = std::make_unique<Look>();
  look_->number = decision.look;
  look_->t_ms = now_ms();
  const Processes all = all_processes();
  std::map<int, Observation> asked;
  for (const auto& [process, member] : members_) {
    const auto state = member.outside->state();
    Observation answer;  // of a process elsewhere it may not be here yet
    if (auto seen = member.outside->look(process, decision.look, all)) {
      answer = std::move(*seen);
      answer.woke = member.looks.woke(supervisor_.last_moved_ms(), look_->t_ms);
      look_->seen[process] = answer;
    } else {
      look_->awaited_looks.insert(process);
    }
    const char letter = state ? state->state : '?';
    const bool runs = letter != 'T' && letter != 't' && letter != 'Z';
    if (decision.wait_for_stacks && runs) asked[process] = std::move(answer);
  }
  look_->awaited = ask_for_stacks(asked);
  for (auto& [process, answer] : asked) {
    if (look_->seen.contains(process)) look_->seen[process] = std::move(answer);
  }
  look_->until_ms = look_->t_ms + kAnswerMs + (look_->awaited_looks.empty() ? 0 : kFarMs);
}

void Watch::look_for_user() {
  const Processes all = all_processes();
  std::map<int, Observation> looked;
  for (const auto& [process, member] : members_) {
    auto seen = member.outside->look(process, kAskedLook, all);
    if (seen) looked[process] = std::move(*seen);  // else it is elsewhere
  }
  (void)ask_for_stacks(looked);
  for (const auto& [process, seen] : looked) sink_.add(Event::of(kController, now_ms(), seen));
}

void Watch::collect_look() {
  if (look_ == nullptr) return;
  const bool all_here = look_->awaited.empty() && look_->awaited_looks.empty();
  if (!all_here && now_ms() < look_->until_ms) return;
  for (auto& [process, observation] : look_->seen) {
    if (observation.look < 2) sink_.add(Event::of(kController, look_->t_ms, observation));
    const auto member = members_.find(process);
    if (member != members_.end()) member->second.looks.take(std::move(observation), look_->t_ms);
  }
  // Between a look that came and one that did not lies nothing that is known.
  for (const int process : look_->awaited_looks) {
    if (const auto member = members_.find(process); member != members_.end())
      member->second.looks.clear();
  }
  look_.reset();
  supervisor_.looked(all_stand_still(), now_ms());
}

bool Watch::all_stand_still() const {
  std::vector<Looked> looked;
  for (const auto& [process, member] : members_) looked.push_back(member.looks.newest());
  return stands_still(looked);
}

void Watch::record_silent_looks() {
  for (auto& [process, member] : members_) {
    for (const LookHistory::Taken& look : member.looks.unrecorded()) {
      sink_.add(Event::of(kController, look.t_ms, look.seen));
    }
  }
}

}  // namespace harness
