#include "harness/run/worker_group.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <poll.h>
#include <unistd.h>

#include "harness/evidence/evidence.h"
#include "harness/run/machine_state.h"
#include "harness/run/proc_look.h"
#include "nsa/base/error.h"

namespace harness {
namespace {

constexpr int kRoundMs = 100;  // deadlines are kept to this; ten rounds a second cost nothing
constexpr int kLingerMs = 5;   // while the group of a process that has ended is being killed
constexpr std::int64_t kSampleMs = 500;  // between two readings of /proc/PID/stat
constexpr std::int64_t kTickMs = 250;    // the progress line: a few times a second
// For what a process leaves behind: a killed grandchild, and what it still holds of the pipe; it ends at once.
constexpr std::int64_t kDrainMs = 1'000;
constexpr std::int64_t kAnswerMs = 1'000;  // a worker samples its threads in 0.5 s at most
constexpr std::int64_t kLeaveMs =
    5'000;  // a process that SIGKILL does not end is in the kernel's hands (state D)
constexpr std::int64_t kMaxRejected =
    100;  // per process: enough to see what is wrong, bounded for the store
constexpr int kReadsPerRound =
    16;  // of 64 KiB: a flooding rank must not keep the others from being read

// As it is stored: text that came from a worker, printable, of bounded length.
std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 256;
  std::string result(text.substr(0, kLongest));
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

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
      supervisor_(limits, monotonic_ms() - origin_ms),
      origin_ms_(origin_ms),
      sink_(sink) {}

void WorkerGroup::start(int process, const ProcessRequest& request) {
  const std::int64_t oom_before = options_.memory.kills();
  members_.push_back(std::make_unique<Member>(process, Process::spawn(request), oom_before));
  supervisor_.started(process, now_ms());
  record(Started{process, members_.back()->process.pid()});
}

void WorkerGroup::run() {
  while (!all_gone()) {
    wait_for_something();
    read_pipes();
    notice_ends();
    sample_states();
    collect_look();
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
    if (member->gone) continue;
    if (!member->process.reaped()) waited.push_back({member->process.pidfd(), POLLIN, 0});
    if (member->process.events() >= 0) waited.push_back({member->process.events(), POLLIN, 0});
  }
  const bool lingers = std::any_of(members_.begin(), members_.end(), [](const auto& member) {
    return !member->gone && member->process.reaped();
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
  const LineReader::OnLine on_piece = [&](LineReader::Piece piece, std::string_view text) {
    on_line(member, piece, text);
  };
  std::array<char, 1 << 16> buffer;  // NOLINT: filled by read()
  for (int i = 0; i < kReadsPerRound && member.process.events() >= 0; ++i) {
    const ssize_t n = read(member.process.events(), buffer.data(), buffer.size());
    if (n > 0) {
      member.lines.feed({buffer.data(), static_cast<std::size_t>(n)}, on_piece);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      member.lines.finish(on_piece);
      member.process.close_events();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

void WorkerGroup::on_line(Member& member, LineReader::Piece piece, std::string_view text) {
  if (piece == LineReader::Piece::too_long) return reject(member, "line too long", text);
  if (piece == LineReader::Piece::unfinished) return reject(member, "half a line", text);
  try {
    Event event = decode_event(text);
    if (!is_worker_kind(event.kind)) throw nsa::Error("kind " + event.kind + " is not a worker's");
    event.process = member.process_number;  // who holds the pipe wrote it, whatever the line says
    event.t_ms = std::min(event.t_ms, now_ms());
    check_row(event);
    accept(member, std::move(event));
  } catch (const nsa::Error& error) {
    reject(member, error.what(), text);
  }
}

void WorkerGroup::accept(Member& member, Event event) {
  supervisor_.heard(event, now_ms());
  member.looks.heard(event);
  if (event.kind == Phase::kKind) notice_kill_point(event);
  if (event.kind == Hello::kKind) member.said_hello = true;
  if (event.kind == Done::kKind) member.finished = true;
  if (event.kind == Observation::kKind) {
    if (take_answer(member, event)) return;
    event.body["process_observed"] = member.process_number;
    event.body["look"] = -1;  // came too late, or was not asked for
  }
  sink_.add(std::move(event));
}

bool WorkerGroup::take_answer(const Member& member, const Event& event) {
  if (look_ == nullptr || look_->awaited.erase(member.process_number) == 0) return false;
  for (Observation& seen : look_->seen) {
    if (seen.process_observed == member.process_number) {
      merge_frames(seen, event.body.get<Observation>());
    }
  }
  return true;
}

void WorkerGroup::reject(Member& member, const std::string& why, std::string_view text) {
  if (++member.rejected > kMaxRejected) return;
  const Fact fact{printable(why), printable(text)};
  sink_.add(Event{member.process_number, now_ms(), kRejectedKind, nlohmann::json(fact)});
}

void WorkerGroup::notice_ends() {
  for (const auto& member : members_) {
    if (member->gone) continue;
    if (!member->process.reaped() && member->process.exited()) {
      member->status = member->process.reap();
      member->drain_until_ms = now_ms() + kDrainMs;
    }
    if (!member->process.reaped()) continue;
    read_pipe(*member);
    // Whoever still holds the pipe then left the process group: it is not listened to.
    const bool nobody_left = member->process.events() < 0 && member->process.group_gone();
    if (nobody_left || now_ms() >= member->drain_until_ms) record_end(*member);
  }
}

void WorkerGroup::record_end(Member& member) {
  member.gone = true;
  member.process.close_events();
  if (member.rejected > kMaxRejected) {
    const Fact fact{"more lines rejected", std::to_string(member.rejected - kMaxRejected)};
    sink_.add(Event{member.process_number, now_ms(), kRejectedKind, nlohmann::json(fact)});
  }
  Exited exited;
  exited.process_ended = member.process_number;
  exited.exit_code = member.status.exit_code;
  exited.signal = member.status.signal;
  exited.by_controller = member.signalled;
  exited.core_dumped = member.status.core_dumped;
  if (member.status.signal == SIGKILL && !member.signalled) {
    const MemoryKill kill = memory_kill_of(member);
    exited.out_of_memory = kill == MemoryKill::this_case;
    exited.memory_kill_elsewhere = kill == MemoryKill::somebody;
  }
  exited.rss_peak_bytes = member.status.rss_peak_bytes;
  record(exited);
  if (look_ != nullptr) look_->awaited.erase(member.process_number);
  const bool well = member.finished && member.status.exit_code == 0;
  supervisor_.ended(
      member.process_number, well, how_ended(member.status, member.finished), now_ms());
}

MemoryKill WorkerGroup::memory_kill_of(const Member& ended) const {
  const std::int64_t kills = options_.memory.kills() - ended.oom_kills_before;
  std::int64_t held = 0;
  for (const auto& member : members_) {
    held += member->process.reaped() ? member->status.rss_peak_bytes
                                     : peak_resident_bytes_of(member->process.pid());
  }
  return memory_kill(kills, held, options_.memory.usable_bytes());
}

void WorkerGroup::sample_states() {
  if (now_ms() - sampled_ms_ < kSampleMs) return;
  sampled_ms_ = now_ms();
  for (const auto& member : members_) {
    if (member->gone || member->process.reaped()) continue;
    if (const auto state = read_process_state(member->process.pid())) {
      supervisor_.seen(member->process_number, state->state, state->cpu_ms, now_ms());
    }
  }
}

void WorkerGroup::begin_look(const Decision& decision) {
  look_ = std::make_unique<Look>();
  look_->number = decision.look;
  look_->t_ms = now_ms();
  look_->until_ms = look_->t_ms + kAnswerMs;
  const Processes all = all_processes();
  for (const auto& member : members_) {
    if (member->gone || member->process.reaped()) continue;
    look_->seen.push_back(
        look_at(member->process_number, decision.look, member->process.pid(), all));
    const std::string& state = look_->seen.back().state;
    const bool can_answer = member->said_hello && state != "T" && state != "t" && state != "Z";
    if (!decision.wait_for_stacks || !can_answer) continue;
    member->process.signal(SIGUSR1);
    look_->awaited.insert(member->process_number);
  }
}

void WorkerGroup::collect_look() {
  if (look_ == nullptr || (!look_->awaited.empty() && now_ms() < look_->until_ms)) return;
  for (Observation& observation : look_->seen) {
    if (observation.look < 2) sink_.add(Event::of(kController, look_->t_ms, observation));
    for (const auto& member : members_) {
      if (member->process_number != observation.process_observed) continue;
      member->looks.take(std::move(observation), look_->t_ms);
      break;
    }
  }
  look_.reset();
  supervisor_.looked(all_stand_still(), now_ms());
}

bool WorkerGroup::all_stand_still() const {
  std::vector<Looked> looked;
  for (const auto& member : members_) {
    if (!member->gone && !member->process.reaped()) looked.push_back(member->looks.newest());
  }
  return stands_still(looked);
}

void WorkerGroup::record_silent_looks() {
  for (const auto& member : members_) {
    for (const LookHistory::Taken& look : member->looks.unrecorded()) {
      sink_.add(Event::of(kController, look.t_ms, look.seen));
    }
  }
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
    return member->gone || member->process.reaped() || member->process.exited();
  });
  if (!all_live) return;
  killed_ = true;
  sink_.flush();
  kill_at_ms_ = now_ms();  // press_on() does it, and leaves what the kernel cannot end
}

void WorkerGroup::decide() {
  if (killed_) return;  // nothing is left to be decided about
  if (options_.interrupted != nullptr) {
    if (const int signal = options_.interrupted->load(); signal != 0) supervisor_.interrupt(signal);
  }
  const Decision decision = supervisor_.decide(now_ms());
  const bool looks_on = decision.kind == Decision::Kind::look && decision.look > 1;
  if (decision.fact || (decision.kind != Decision::Kind::nothing && !looks_on)) {
    record_silent_looks();
  }
  if (decision.suspect) {
    record(*decision.suspect);
    for (const auto& member : members_) member->looks.clear();
  }
  if (decision.fact) record(*decision.fact);
  if (decision.kind == Decision::Kind::look) begin_look(decision);
  if (decision.kind == Decision::Kind::stop) begin_stop(decision.stopped);
}

void WorkerGroup::begin_stop(const Stopped& stopped) {
  stop_reason_ = stopped.reason;
  record(stopped);
  sink_.flush();  // the record says why before anything is ended
  signal_all(SIGTERM);
  kill_at_ms_ = now_ms() + options_.term_grace_ms;
}

void WorkerGroup::signal_all(int number) {
  for (const auto& member : members_) {
    // One that has ended by itself meanwhile is not blamed on the controller.
    if (member->gone || member->process.reaped() || member->process.exited()) continue;
    member->signalled = true;
    member->process.signal_group(number);
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
  const auto state = read_process_state(member.process.pid());
  record(Fact{"process_left",
              process_name(member.process_number) + ", pid " +
                  std::to_string(member.process.pid()) + ", state " +
                  std::string(1, state ? state->state : '?') + ", does not end on SIGKILL"});
  member.gone = true;
}

}  // namespace harness
