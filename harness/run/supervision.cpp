#include "harness/run/supervision.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <unistd.h>

#include "harness/evidence/evidence.h"
#include "harness/evidence/hosts.h"
#include "harness/run/processes/process_end.h"

namespace harness {
namespace {

constexpr int kRoundMs = 100;  // deadlines are kept to this; ten rounds a second cost nothing
constexpr int kLingerMs = 5;   // while the group of a process that has ended is being killed
constexpr std::int64_t kTickMs = 250;  // the progress line: a few times a second
// For what a process leaves behind: a killed grandchild, and what it still holds of the pipe; it ends at once.
constexpr std::int64_t kDrainMs = 1'000;
constexpr std::int64_t kLeaveMs =
    5'000;  // a process that SIGKILL does not end is in the kernel's hands (state D)

}  // namespace

Supervision::Supervision(const RunnerOptions& options,
                         const SupervisorLimits& limits,
                         std::int64_t origin_ms,
                         EventSink& sink,
                         Source* source)
    : options_(options),
      sink_(sink),
      source_(source),
      watch_(limits,
             origin_ms,
             sink,
             [this](int number, Observation& seen) { return ask_for_stacks(number, seen); }),
      intake_(watch_, sink, options.folder) {}

Supervised& Supervision::add(int number,
                             std::unique_ptr<WatchedProcess> started,
                             std::int64_t oom_kills) {
  Supervised& added = all_[number] = Supervised();
  added.process = std::move(started);
  added.oom_kills_before = oom_kills;
  watch_.started(number, added.process->pid(), *added.process);
  return added;
}

void Supervision::start(int number, const ProcessRequest& request) {
  const std::int64_t oom_before = options_.memory.kills();
  add(number, std::make_unique<LocalProcess>(request), oom_before);
}

void Supervision::run() {
  while (!all_gone()) {
    wait_for_something();
    read_pipes();
    if (source_ != nullptr) source_->look();
    notice_ends();
    kill_as_planned();
    if (source_ != nullptr) source_->weigh();
    decide();
    press_on();
    sink_.flush();
    if (now_ms() - ticked_ms_ >= kTickMs) {
      ticked_ms_ = now_ms();
      sink_.tick();
    }
  }
  sink_.flush();
}

bool Supervision::all_gone() const {
  if (source_ != nullptr) return source_->gone();
  return std::none_of(
      all_.begin(), all_.end(), [](const auto& entry) { return entry.second.lives(); });
}

void Supervision::wait_for_something() const {
  std::vector<pollfd> waited;
  std::int64_t round_ms = source_ != nullptr ? source_->add_to(waited) : kRoundMs;
  for (const auto& [number, one] : all_) {
    if (!one.lives()) continue;
    one.process->add_to(waited);
    if (one.drain_until_ms != 0) round_ms = std::min<std::int64_t>(round_ms, kLingerMs);
  }
  if (kill_due_ms_) round_ms = std::clamp<std::int64_t>(*kill_due_ms_ - now_ms(), 0, round_ms);
  // Interrupted by a signal, or failed: the round goes on all the same, and comes back after a bounded time.
  const int ready = poll(waited.data(), waited.size(), static_cast<int>(round_ms));
  if (ready < 0 && errno != EINTR) usleep(kRoundMs * 1000);
}

void Supervision::read_pipes() {
  for (auto& [number, one] : all_) {
    if (one.lives()) read_pipe(number, one);
  }
}

void Supervision::read_pipe(int number, Supervised& one) {
  one.process->read(
      [&](LineReader::Piece piece, std::string_view text) { take(number, piece, text); },
      [&](Observation seen) { watch_.take_look(number, std::move(seen)); });
}

std::optional<Event> Supervision::take(int number, LineReader::Piece piece, std::string_view text) {
  std::optional<Event> event = intake_.take(number, piece, text);
  const auto at = all_.find(number);
  if (!event || at == all_.end()) return event;
  if (event->kind == Phase::kKind) notice_kill_point(*event);
  if (event->kind == Hello::kKind) at->second.said_hello = true;
  if (event->kind == Done::kKind) at->second.finished = true;
  if (event->kind == WorkerError::kKind) at->second.told_error = true;
  return event;
}

// Ends that are noticed in one round have one time: which of them came first is not known.
void Supervision::notice_ends() {
  for (auto& [number, one] : all_) {
    if (!one.lives()) continue;
    if (one.drain_until_ms == 0 && one.process->has_ended()) {
      one.end = one.process->end();
      watch_.reaped(number);
      one.drain_until_ms = now_ms() + kDrainMs;
    }
    if (one.drain_until_ms != 0) {
      read_pipe(number, one);
    } else if (const std::string why = one.process->lost(); !why.empty()) {
      record_lost(number, one, why);
    }
  }
  const std::int64_t at_ms = now_ms();
  for (auto& [number, one] : all_) {
    if (!one.lives() || one.drain_until_ms == 0) continue;
    // Whoever still holds the pipe then left the process group: it is not listened to.
    if (one.process->silent() || at_ms >= one.drain_until_ms) ended(number, one, at_ms);
  }
}

void Supervision::ended(int number, Supervised& one, std::int64_t at_ms) {
  one.ended_ms = at_ms;
  one.by_launcher = one.process->ended_by_launcher();
  one.process->close();
  if (source_ != nullptr) {
    watch_.ended(number, source_->ended_well(number, one), told_end(one.end));
    return;
  }
  record_end(number, one);
  const bool left_off = !one.finished && one.end && one.end->signal == 0;
  watch_.ended(number,
               one.finished && is_good(one.end),
               told_end(one.end) + (left_off ? " before it was done" : ""));
}

void Supervision::forget(int number) {
  if (all_.erase(number) > 0) watch_.ended(number, true, "");
}

void Supervision::record_end(int number, Supervised& one) {
  intake_.finish(number);
  if (!one.end) return;
  Exited exited;
  exited.process_ended = number;
  exited.exit_code = one.end->signal != 0 ? -1 : one.end->exit_code;
  exited.signal = one.end->signal;
  exited.core_dumped = one.end->core_dumped;
  exited.by_controller = one.asked_to_end;
  exited.by_launcher = one.by_launcher && !one.asked_to_end;
  if (exited.signal == SIGKILL && !exited.by_controller) {
    const MemoryKill kill = memory_kill_of(one);
    exited.out_of_memory = kill == MemoryKill::this_case;
    exited.memory_kill_elsewhere = kill == MemoryKill::somebody;
  }
  exited.rss_peak_bytes = peak_bytes(one);
  record(kController, *one.ended_ms, exited);
  if (exited.by_launcher && source_ == nullptr)
    record(Fact{kEndedByLauncherFact, process_name(number)});
}

// Nothing is said of how it ended: whoever is not reached may be computing still.
void Supervision::record_lost(int number, Supervised& one, const std::string& why) {
  one.ended_ms = now_ms();
  lost_one_ = true;
  intake_.finish(number);
  one.process->close();
  record(Fact{kLinkLostFact, process_name(number) + ": " + why});
  watch_.ended(number, false, "could not be reached any more");
}

std::int64_t Supervision::peak_bytes(const Supervised& one) const {
  return std::max(one.peak_bytes, one.process->peak_resident_bytes());
}

// What all of them held tells whose memory it was.
MemoryKill Supervision::memory_kill_of(const Supervised& ended) const {
  if (const auto told = ended.process->memory_kill()) return *told;
  const std::int64_t kills = options_.memory.kills() - ended.oom_kills_before;
  std::int64_t held = 0;
  for (const auto& [number, one] : all_) held += peak_bytes(one);
  return memory_kill(kills, held, options_.memory.usable_bytes());
}

bool Supervision::ask_for_stacks(int number, Observation& seen) const {
  if (source_ != nullptr) {
    source_->put_stacks(number, seen);
    return false;  // nothing is awaited
  }
  const auto at = all_.find(number);
  if (at == all_.end() || !at->second.said_hello) return false;
  at->second.process->signal(SIGUSR1);
  return true;
}

void Supervision::notice_kill_point(const Event& event) {
  if (!kill_ || kill_due_ms_) return;
  const auto phase = event.body.get<Phase>();
  if (phase.phase == kill_->phase && phase.step == kill_->step) {
    kill_due_ms_ = now_ms() + kill_->after_ms;
  }
}

void Supervision::kill_as_planned() {
  if (!kill_due_ms_ || now_ms() < *kill_due_ms_) return;
  kill_.reset();
  kill_due_ms_.reset();
  if (was_stopped()) return;
  const bool all_live = std::none_of(all_.begin(), all_.end(), [](const auto& entry) {
    return !entry.second.lives() || entry.second.process->has_ended();
  });
  if (!all_live) return;
  killed_ = true;
  sink_.flush();
  kill_at_ms_ = now_ms();  // press_on() does it, and leaves what the kernel cannot end
}

void Supervision::decide() {
  if (killed_) return;  // nothing is left to be decided about
  if (options_.interrupted != nullptr) {
    if (const int signal = options_.interrupted->load(); signal != 0) watch_.interrupt(signal);
  }
  if (const auto stopped = watch_.step()) stop_reason_ = stopped->reason;
  if (stop_reason_.empty() || asked_to_end()) return;
  if (source_ != nullptr && !source_->may_end(stop_reason_)) return;
  sink_.flush();  // the record says why before anything is ended
  end_all(SIGTERM);
}

void Supervision::end_all(int signal) {
  for (auto& [number, one] : all_) {
    // One that has ended by itself meanwhile is not blamed on the controller.
    if (!one.lives() || one.process->has_ended()) continue;
    one.asked_to_end = true;
    one.process->signal_group(signal);
  }
  const std::int64_t grace_ms =
      source_ != nullptr ? source_->end_all(signal) : options_.term_grace_ms;
  if (signal == SIGTERM) kill_at_ms_ = now_ms() + grace_ms;
}

void Supervision::press_on() {
  if (kill_at_ms_ == 0) return;
  if (leave_at_ms_ == 0 && now_ms() >= kill_at_ms_) {
    end_all(SIGKILL);
    leave_at_ms_ = now_ms() + kLeaveMs;
  }
  if (leave_at_ms_ == 0 || now_ms() < leave_at_ms_) return;
  for (auto& [number, one] : all_) {
    if (one.lives()) leave(number, one);
  }
}

void Supervision::leave(int number, Supervised& one) {
  const auto state = one.process->state();
  record(Fact{"process_left",
              process_name(number) + ", pid " + std::to_string(one.process->pid()) + ", state " +
                  std::string(1, state ? state->state : '?') + ", does not end on SIGKILL"});
  one.ended_ms = now_ms();
}

}  // namespace harness
