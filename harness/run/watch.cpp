#include "harness/run/watch.h"

#include <utility>

#include "harness/run/proc_look.h"

namespace harness {
namespace {

constexpr std::int64_t kSampleMs = 500;    // between two readings of /proc/PID/stat
constexpr std::int64_t kAnswerMs = 1'000;  // a worker samples its threads in 0.5 s at most

}  // namespace

Watch::Watch(const SupervisorLimits& limits,
             std::int64_t origin_ms,
             EventSink& sink,
             AskForStacks ask)
    : supervisor_(limits, monotonic_ms() - origin_ms),
      origin_ms_(origin_ms),
      sink_(sink),
      ask_(std::move(ask)) {}

void Watch::started(int process, pid_t pid) {
  members_[process] = Member{pid, {}};
  supervisor_.started(process, now_ms());
  record(Started{process, pid});
}

void Watch::heard(int process, const Event& event) {
  supervisor_.heard(event, now_ms());
  if (const auto at = members_.find(process); at != members_.end()) at->second.looks.heard(event);
}

bool Watch::take_answer(int process, const Event& event) {
  if (look_ == nullptr || look_->awaited.erase(process) == 0) return false;
  for (Observation& seen : look_->seen) {
    if (seen.process_observed == process) merge_frames(seen, event.body.get<Observation>());
  }
  return true;
}

void Watch::ended(int process, bool well, const std::string& how) {
  members_.erase(process);
  if (look_ != nullptr) look_->awaited.erase(process);
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
  for (const auto& [process, member] : members_) {
    if (const auto state = read_process_state(member.pid)) {
      supervisor_.seen(process, state->state, state->cpu_ms, now_ms());
    }
  }
}

void Watch::begin_look(const Decision& decision) {
  look_ = std::make_unique<Look>();
  look_->t_ms = now_ms();
  look_->until_ms = look_->t_ms + kAnswerMs;
  const Processes all = all_processes();
  for (const auto& [process, member] : members_) {
    look_->seen.push_back(look_at(process, decision.look, member.pid, all));
    Observation& seen = look_->seen.back();
    const bool runs = seen.state != "T" && seen.state != "t" && seen.state != "Z";
    if (decision.wait_for_stacks && runs && ask_(process, seen)) look_->awaited.insert(process);
  }
}

void Watch::collect_look() {
  if (look_ == nullptr || (!look_->awaited.empty() && now_ms() < look_->until_ms)) return;
  for (Observation& observation : look_->seen) {
    if (observation.look < 2) sink_.add(Event::of(kController, look_->t_ms, observation));
    const auto member = members_.find(observation.process_observed);
    if (member != members_.end()) member->second.looks.take(std::move(observation), look_->t_ms);
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
