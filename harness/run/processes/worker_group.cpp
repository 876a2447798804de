#include "harness/run/processes/worker_group.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <poll.h>
#include <unistd.h>

#include "harness/evidence/evidence.h"
#include "harness/evidence/hosts.h"
#include "harness/run/looks/machine_state.h"
#include "harness/run/looks/proc_look.h"
#include "nsa/base/error.h"

namespace harness {
namespace {

constexpr int kRoundMs = 100;  // deadlines are kept to this; ten rounds a second cost nothing
constexpr int kLingerMs = 5;   // while the group of a process that has ended is being killed
constexpr std::int64_t kTickMs = 250;  // the progress line: a few times a second
// For what a process leaves behind: a killed grandchild, and what it still holds of the pipe; it ends at once.
constexpr std::int64_t kDrainMs = 1'000;
constexpr std::int64_t kLeaveMs =
    5'000;  // a process that SIGKILL does not end is in the kernel's hands (state D)

std::string how_ended(const ExitStatus& status, bool finished) {
  if (status.signal != 0) return "was ended by signal " + std::to_string(status.signal);
  const std::string code = "exited with " + std::to_string(status.exit_code);
  return finished ? code : code + " before it was done";
}

}  // namespace

WorkerGroup::WorkerGroup(const RunnerOptions& options,
                         const SupervisorLimits& limits,
                         std::int64_t origin_ms,
                         EventSink& sink)
    : options_(options),
      sink_(sink),
      watch_(limits,
             origin_ms,
             sink,
             [this](int process, Observation&) { return ask_for_stacks(process); }),
      intake_(watch_, sink, options.folder) {}

void WorkerGroup::add(int process,
                      std::unique_ptr<WatchedProcess> started,
                      std::int64_t oom_kills) {
  auto member = std::make_unique<Member>();
  member->process_number = process;
  member->process = std::move(started);
  member->oom_kills_before = oom_kills;
  members_.push_back(std::move(member));
  WatchedProcess& added = *members_.back()->process;
  watch_.started(process, added.pid(), added);
}

void WorkerGroup::start(int process, const ProcessRequest& request) {
  const std::int64_t oom_before = options_.memory.kills();
  add(process, std::make_unique<LocalProcess>(request), oom_before);
}

void WorkerGroup::run() {
  while (!all_gone()) {
    wait_for_something();
    read_pipes();
    notice_ends();
    kill_as_planned();
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

bool WorkerGroup::all_gone() const {
  return std::all_of(
      members_.begin(), members_.end(), [](const auto& member) { return member->gone; });
}

void WorkerGroup::wait_for_something() const {
  std::vector<pollfd> waited;
  for (const auto& member : members_) {
    if (!member->gone) member->process->add_to(waited);
  }
  const bool lingers = std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    return !member->gone && member->ended;
  });
  std::int64_t round_ms = lingers ? kLingerMs : kRoundMs;
  if (kill_due_ms_) round_ms = std::clamp<std::int64_t>(*kill_due_ms_ - now_ms(), 0, round_ms);
  // Interrupted by a signal, or failed: the round goes on all the same, and comes back after a bounded time.
  const int ready = poll(waited.data(), waited.size(), static_cast<int>(round_ms));
  if (ready < 0 && errno != EINTR) usleep(kRoundMs * 1000);
}

void WorkerGroup::read_pipes() {
  for (const auto& member : members_) {
    if (!member->gone) read_pipe(*member);
  }
}

void WorkerGroup::read_pipe(Member& member) {
  member.process->read(
      [&](LineReader::Piece piece, std::string_view text) { on_line(member, piece, text); },
      [&](Observation seen) { watch_.take_look(member.process_number, std::move(seen)); });
}

void WorkerGroup::on_line(Member& member, LineReader::Piece piece, std::string_view text) {
  const std::optional<Event> event = intake_.take(member.process_number, piece, text);
  if (!event) return;
  if (event->kind == Phase::kKind) notice_kill_point(*event);
  if (event->kind == Hello::kKind) member.said_hello = true;
  if (event->kind == Done::kKind) member.finished = true;
}

void WorkerGroup::notice_ends() {
  for (const auto& member : members_) {
    if (member->gone) continue;
    if (!member->ended && member->process->end()) {
      member->ended = true;
      watch_.reaped(member->process_number);
      member->drain_until_ms = now_ms() + kDrainMs;
    }
    if (!member->ended) {
      const std::string why = member->process->lost();
      if (!why.empty()) record_lost(*member, why);
      continue;
    }
    read_pipe(*member);
    // Whoever still holds the pipe then left the process group: it is not listened to.
    if (member->process->silent() || now_ms() >= member->drain_until_ms) record_end(*member);
  }
}

void WorkerGroup::record_end(Member& member) {
  member.gone = true;
  intake_.finish(member.process_number);
  const ExitStatus status = *member.process->end();
  Exited exited;
  exited.process_ended = member.process_number;
  exited.exit_code = status.exit_code;
  exited.signal = status.signal;
  exited.by_controller = member.signalled;
  exited.by_launcher = member.process->ended_by_launcher() && !member.signalled;
  exited.core_dumped = status.core_dumped;
  if (status.signal == SIGKILL && !member.signalled) {
    const MemoryKill kill = memory_kill_of(member);
    exited.out_of_memory = kill == MemoryKill::this_case;
    exited.memory_kill_elsewhere = kill == MemoryKill::somebody;
  }
  exited.rss_peak_bytes = status.rss_peak_bytes;
  member.process->close();
  record(exited);
  if (exited.by_launcher) {
    record(Fact{kEndedByLauncherFact, process_name(member.process_number)});
  }
  const bool well = member.finished && status.exit_code == 0;
  watch_.ended(member.process_number, well, how_ended(status, member.finished));
}

// Nothing is said of how it ended: whoever is not reached may be computing still.
void WorkerGroup::record_lost(Member& member, const std::string& why) {
  member.gone = true;
  lost_one_ = true;
  intake_.finish(member.process_number);
  member.process->close();
  record(Fact{kLinkLostFact, process_name(member.process_number) + ": " + why});
  watch_.ended(member.process_number, false, "could not be reached any more");
}

MemoryKill WorkerGroup::memory_kill_of(const Member& ended) const {
  if (const auto told = ended.process->memory_kill()) return *told;
  const std::int64_t kills = options_.memory.kills() - ended.oom_kills_before;
  std::int64_t held = 0;
  for (const auto& member : members_) held += member->process->peak_resident_bytes();
  return memory_kill(kills, held, options_.memory.usable_bytes());
}

bool WorkerGroup::ask_for_stacks(int process) const {
  for (const auto& member : members_) {
    if (member->process_number != process || !member->said_hello) continue;
    member->process->signal(SIGUSR1);
    return true;
  }
  return false;
}

void WorkerGroup::notice_kill_point(const Event& event) {
  if (!kill_ || kill_due_ms_) return;
  const auto phase = event.body.get<Phase>();
  if (phase.phase == kill_->phase && phase.step == kill_->step) {
    kill_due_ms_ = now_ms() + kill_->after_ms;
  }
}

void WorkerGroup::kill_as_planned() {
  if (!kill_due_ms_ || now_ms() < *kill_due_ms_) return;
  kill_.reset();
  kill_due_ms_.reset();
  if (was_stopped()) return;
  const bool all_live = std::none_of(members_.begin(), members_.end(), [](const auto& member) {
    return member->gone || member->process->has_ended();
  });
  if (!all_live) return;
  killed_ = true;
  sink_.flush();
  kill_at_ms_ = now_ms();  // press_on() does it, and leaves what the kernel cannot end
}

void WorkerGroup::decide() {
  if (killed_) return;  // nothing is left to be decided about
  if (options_.interrupted != nullptr) {
    if (const int signal = options_.interrupted->load(); signal != 0) watch_.interrupt(signal);
  }
  if (const auto stopped = watch_.step()) begin_stop(*stopped);
}

void WorkerGroup::begin_stop(const Stopped& stopped) {
  stop_reason_ = stopped.reason;
  sink_.flush();  // the record says why before anything is ended
  signal_all(SIGTERM);
  kill_at_ms_ = now_ms() + options_.term_grace_ms;
}

void WorkerGroup::signal_all(int number) {
  for (const auto& member : members_) {
    // One that has ended by itself meanwhile is not blamed on the controller.
    if (member->gone || member->process->has_ended()) continue;
    member->signalled = true;
    member->process->signal_group(number);
  }
}

void WorkerGroup::press_on() {
  if (kill_at_ms_ == 0) return;
  if (leave_at_ms_ == 0 && now_ms() >= kill_at_ms_) {
    signal_all(SIGKILL);
    leave_at_ms_ = now_ms() + kLeaveMs;
  }
  if (leave_at_ms_ == 0 || now_ms() < leave_at_ms_) return;
  for (const auto& member : members_) {
    if (!member->gone) leave(*member);
  }
}

void WorkerGroup::leave(Member& member) {
  const auto state = member.process->state();
  record(Fact{"process_left",
              process_name(member.process_number) + ", pid " +
                  std::to_string(member.process->pid()) + ", state " +
                  std::string(1, state ? state->state : '?') + ", does not end on SIGKILL"});
  member.gone = true;
}

}  // namespace harness
