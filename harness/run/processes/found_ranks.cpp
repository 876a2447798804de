#include "harness/run/processes/found_ranks.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include "harness/evidence/evidence.h"
#include "harness/evidence/hosts.h"
#include "harness/foreign/error_file.h"
#include "harness/run/processes/process_end.h"
#include "harness/run/processes/users_torch.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr std::int64_t kScanMs = 250;
constexpr std::int64_t kSilentMs = 2'000;  // each dump costs a rank milliseconds
constexpr std::int64_t kStalledSilentMs =
    1'000;  // where no rank's main thread seems to go on either
// torchrun gives the ranks 30 s to end on SIGTERM, and then they meet anew.
constexpr std::int64_t kRestartMs = 60'000;
constexpr std::int64_t kTogetherMs = 250;  // between the ends of two processes, as they are noticed
constexpr std::int64_t kLastDumpMs = 3'000;
constexpr std::int64_t kKeeperMs = 10'000;  // it ends the tree in three seconds

// What the two lines look for, and what switches PyTorch's flight recorder on.
ProcessRequest with_address(ProcessRequest keeper,
                            const std::string& address,
                            std::int64_t origin_ms,
                            FlightRecorders& flights) {
  constexpr std::size_t kProgram = 2;  // behind this program and the word that makes it a keeper
  const std::string torch = users_torch(keeper.argv.at(kProgram), keeper.environment);
  for (std::string& one : flights.variables(keeper.environment, torch)) {
    keeper.environment.push_back(std::move(one));
  }
  keeper.environment.push_back("NSA_HARNESS_SOCKET=" + address);
  keeper.environment.push_back("NSA_HARNESS_ORIGIN_MS=" + std::to_string(origin_ms));
  return keeper;
}

}  // namespace

FoundRanks::FoundRanks(const RunnerOptions& options,
                       const SupervisorLimits& limits,
                       std::int64_t origin_ms,
                       const ProcessRequest& keeper,
                       EventSink& sink)
    : options_(options),
      group_(options, limits, origin_ms, sink, this),
      sink_(sink),
      callers_(options.folder),
      flights_(options.folder),
      digests_(options.folder),
      keeper_(Process::spawn(with_address(keeper, callers_.address(), origin_ms, flights_))),
      output_(keeper.out_path, keeper.err_path),
      words_(keeper.out_path, keeper.err_path),
      tree_(keeper_.pid()) {}

void FoundRanks::run() {
  group_.run();
  hear();
  hear_keeper();
  record_ends();
  sink_.flush();
}

int FoundRanks::add_to(std::vector<pollfd>& waited) const {
  waited.push_back({keeper_.pidfd(), POLLIN, 0});
  callers_.add_to(waited);
  return callers_.interval_ms();
}

void FoundRanks::look() {
  hear_keeper();
  hear();
  scan();
  if (command_ != 0 && !command_ended_ms_ && has_ended(command_fd_)) command_ended_ms_ = now_ms();
  if (keeper_.exited()) keeper_end_ = keeper_.reap();
}

void FoundRanks::weigh() {
  watch_launcher();
  ask_flight_recorders();
  obey();
  const bool restarts = restarting_since_ms_ != 0 && !command_ended_ms_ &&
                        now_ms() - restarting_since_ms_ < kRestartMs;
  if (restarts) group_.watch().moved();
}

void FoundRanks::hear_keeper() {
  said_ = harness::hear_keeper(keeper_.events(), said_by_keeper_);
  if (command_ != 0 || said_.command == 0) return;
  command_ = said_.command;
  command_fd_ = watch_end(command_);
  meet(0, command_);
}

void FoundRanks::meet(int number, pid_t pid) {
  group_.add(number, std::make_unique<FoundProcess>(pid), options_.memory.kills());
}

void FoundRanks::scan() {
  if (command_ == 0 || now_ms() - scanned_ms_ < kScanMs) return;
  scanned_ms_ = now_ms();
  tree_.scan(scanned_ms_);
  find_ranks();
  find_worker();
  words_.find(tree_, group_.all());
  for (auto& [number, rank] : group_.all()) {
    if (!rank.lives()) continue;
    rank.peak_bytes = std::max(rank.peak_bytes, rank.process->peak_resident_bytes());
    stalls_.seen(number, main_thread_switches_of(rank.process->pid()), scanned_ms_);
  }
  // A rank that was asked for a dump says so on stderr: what comes there until the answer is no movement.
  const bool printed = output_.more(flights_.asked_lately(scanned_ms_));
  if (printed) printed_ms_ = scanned_ms_;
  const bool seen = printed || tree_.computed(held_pids());
  if (seen && !all_tell_themselves()) group_.watch().moved();
}

void FoundRanks::find_ranks() {
  const std::vector<FoundRank> all = tree_.ranks();
  for (const FoundRank& found : all) {
    most_restarts_ = std::max(most_restarts_, found.most_restarts);
    if (ranks_say_so_ && found.restarts > restarts_) begin_life(found.restarts);
    restarts_ = std::max(restarts_, found.restarts);
  }
  for (const FoundRank& found : all) {
    if (found.restarts < restarts_) continue;  // left of the life before
    note_world(found.world);
    const auto known = group_.all().find(found.rank);
    // What an ended rank left behind has its number too: the first that had it is the rank.
    if (known != group_.all().end() &&
        (ranks_say_so_ || known->second.process->pid() == found.pid)) {
      ranks_say_so_ = true;
      continue;
    }
    meet_rank(found.rank, found.pid);
    group_.all().at(found.rank).error_file = found.error_file;
    if (!found.meeting.empty()) record(found.rank, now_ms(), Fact{kMeetingFact, found.meeting});
  }
}

// A shell, or another process that only waits for one that it has started, is no rank. What it starts one after the other are
// lives.
void FoundRanks::find_worker() {
  if (ranks_say_so_ || command_ended_ms_) return;
  const auto rank = group_.all().find(0);
  const bool known = rank != group_.all().end();
  const bool has_one = known && rank->second.lives();
  pid_t worker = tree_.worker(has_one ? rank->second.process->pid() : command_);
  // If the command first starts a helper, such as a server, and then a process with LibTorch, the helper is not the rank.
  const bool stays = has_one && worker == rank->second.process->pid();
  if (stays && !CommandTree::has_torch(worker)) worker = tree_.worker(command_);
  const bool twice = std::exchange(worker_, worker) == worker;
  if (!twice || worker == command_ || (known && rank->second.process->pid() == worker)) return;
  if (has_one && rank->second.said_hello) return;  // it trains, and waits for a tool
  if (known && !has_one) begin_life(restarts_);
  meet(0, worker);
}

// Of the first process that says that it is a rank on, the command is none by itself.
void FoundRanks::meet_rank(int number, pid_t pid) {
  const auto first = group_.all().find(0);
  if (!ranks_say_so_ && number != 0 && first != group_.all().end() &&
      !first->second.numbered_itself) {
    group_.forget(0);
  }
  ranks_say_so_ = true;
  meet(number, pid);
}

void FoundRanks::note_world(int world) {
  if (world <= world_) return;
  world_ = world;
  record(kController, now_ms(), Fact{kWorldSizeFact, std::to_string(world_)});
}

// The processes of the life before are gone, or about to go: what counts from here on is what their successors do.
void FoundRanks::begin_life(int restarts) {
  group_.notice_ends();
  group_.forget(kLauncher);  // it goes on
  for (auto& [number, rank] : group_.all()) {
    if (rank.lives()) group_.ended(number, rank, now_ms());
  }
  record_ends_of_life();
  record(kController, now_ms(), Relaunched{++lives_ended_, how_life_ended()});
  sink_.begin_life();
  for (const std::int64_t at_ms = now_ms(); now_ms() <= at_ms;) usleep(1'000);
  flights_.forget(ranks(true));
  flights_recorded_ = false;
  order_ = CollectiveOrder();
  digests_ = StepDigests(options_.folder);
  stalls_ = Stalls();
  words_.begin_life();
  group_.all().clear();
  world_ = 0;
  // The new ones meet with what the old ones left in the launcher's store: a wait for that is the launcher's to end.
  restarting_since_ms_ = restarts > restarts_ ? now_ms() : 0;
  restarts_ = restarts;
}

void FoundRanks::put_stacks(int number, Observation& seen) const {
  const pid_t pid = group_.all().at(number).process->pid();
  callers_.ask_for_flight(pid);
  put_python_frames(pid, options_.frames_of, seen);
}

void FoundRanks::hear() {
  callers_.read([this](pid_t pid, LineReader::Piece piece, std::string_view text) {
    on_line(pid, piece, text);
  });
}

void FoundRanks::on_line(pid_t pid, LineReader::Piece piece, std::string_view text) {
  const int number = number_of(pid, text);
  const std::optional<Event> event = group_.take(number, piece, text);
  if (!event) return;
  order_.heard(*event);
  for (const auto& [of, row] : digests_.heard(*event)) record(of, now_ms(), row);
  // They have met, and train. Where one of them has failed, the others go on until the launcher ends them.
  if (event->kind == Phase::kKind && restarting_since_ms_ != 0 && ranks(false) == ranks(true))
    restarting_since_ms_ = 0;
  if (event->kind != Fact::kKind) return;
  const auto fact = event->body.get<Fact>();
  constexpr std::int64_t kMostRanks = 1'000'000;
  if (fact.name == kWorldSizeFact)
    note_world(static_cast<int>(std::min(nsa::parse_int(fact.value).value_or(0), kMostRanks)));
}

// A process that is known as a rank is that rank. Another one is the rank that it says, if that is new; else it belongs to the
// rank that it descends from.
int FoundRanks::number_of(pid_t pid, std::string_view line) {
  if (!tree_.knows(pid) && sought_.insert(pid).second) {
    tree_.scan(now_ms());
    find_ranks();
  }
  for (const auto& [number, rank] : group_.all()) {  // of nearly every line; a line may be long
    if (rank.process->pid() == pid && (ranks_say_so_ || rank.numbered_itself)) return number;
  }
  constexpr int kMostRanks = 1'000'000;
  const auto row = nlohmann::json::parse(line, nullptr, false);
  const bool tells =
      row.is_object() && row.contains("process") && row["process"].is_number_integer();
  const int said = tells ? std::clamp(row["process"].get<int>(), 0, kMostRanks) : 0;
  std::vector<pid_t> pids;
  for (auto& [number, rank] : group_.all()) {
    if (rank.process->pid() != pid) {
      pids.push_back(rank.process->pid());
      continue;
    }
    if (!tells || said == number) {
      rank.numbered_itself = tells;
      return number;
    }
    meet_rank(said, pid);  // it was taken for rank 0
    group_.all().at(said).numbered_itself = true;
    return said;
  }
  const auto known = group_.all().find(said);
  if (known == group_.all().end() || (!ranks_say_so_ && !known->second.numbered_itself)) {
    meet_rank(said, pid);
    group_.all().at(said).numbered_itself = true;
    return said;
  }
  const pid_t owner = tree_.owner(pid, pids);
  for (const auto& [number, rank] : group_.all()) {
    if (owner != 0 && rank.process->pid() == owner) return number;
  }
  return said;
}

// Counters tell more than processor time: a rank that spins does not move.
bool FoundRanks::all_tell_themselves() const {
  return std::all_of(group_.all().begin(), group_.all().end(), [](const auto& entry) {
    return entry.second.said_hello || !entry.second.lives();
  });
}

bool FoundRanks::ended_well(int number, const Supervised& one) {
  const bool restarts = number != kLauncher && !is_good(one.end) && restarts_ < most_restarts_;
  if (restarts) restarting_since_ms_ = now_ms();
  const bool goes_on =
      !ranks_say_so_ && one.process->pid() != command_;  // the shell may start another one
  return is_good(one.end) || restarts || goes_on || (!one.end && number != kLauncher);
}

// A command that goes on after its ranks is waited for like them.
void FoundRanks::watch_launcher() {
  const bool ranks_live = std::any_of(group_.all().begin(),
                                      group_.all().end(),
                                      [](const auto& entry) { return entry.second.lives(); });
  if (command_ == 0 || ranks_live || command_is_rank()) return;
  meet(kLauncher, command_);
}

bool FoundRanks::command_is_rank() const {
  return std::any_of(group_.all().begin(), group_.all().end(), [&](const auto& entry) {
    return entry.second.process->pid() == command_;
  });
}

// What the user asks for or sends while the command runs.
void FoundRanks::obey() {
  if (options_.asked != nullptr && options_.asked->load() != told_) {
    told_ = options_.asked->load();
    group_.watch().look_for_user();
  }
  if (options_.pass_on == nullptr || command_ == 0 || command_ended_ms_) return;
  const std::uint64_t sent = options_.pass_on->exchange(0);
  for (const int number : kPassedOn) {
    if ((sent >> number & 1U) != 0) keeper_.signal(number);
  }
}

// Where it is not known what the ranks wait for, they are asked once more.
bool FoundRanks::may_end(const std::string& reason) {
  if (stopping_since_ms_ == 0) {
    stopping_since_ms_ = now_ms();
    const bool wants_dumps = reason == "still" || reason == "budget";
    if (wants_dumps && flights_.held().empty()) flights_.ask_at_last(ranks(false), now_ms());
  }
  if (!flights_.done() && now_ms() - stopping_since_ms_ < kLastDumpMs) return false;
  record_flights();
  return true;
}

std::int64_t FoundRanks::end_all(int signal) {
  if (command_ != 0 && !has_ended(command_fd_)) asked_command_to_end_ = true;
  keeper_.signal(signal);
  if (signal == SIGKILL) give_up_ms_ = now_ms() + kKeeperMs;
  return kKeeperMs;
}

bool FoundRanks::gone() {
  return keeper_.reaped() || (give_up_ms_ != 0 && now_ms() >= give_up_ms_);
}

std::set<int> FoundRanks::ranks(bool with_ended) const {
  std::set<int> numbers;
  for (const auto& [number, rank] : group_.all()) {
    if (number != kLauncher && (with_ended || rank.lives())) numbers.insert(number);
  }
  return numbers;
}

// A rank that waits for its peers may do so in a loop: its processor time tells nothing then.
std::set<pid_t> FoundRanks::held_pids() const {
  std::set<pid_t> pids;
  for (const int number : flights_.waiting()) {
    const auto at = group_.all().find(number);
    if (at != group_.all().end()) pids.insert(at->second.process->pid());
  }
  return pids;
}

// Ranks that tell of themselves are asked only where they seem to stand still.
FlightRecorders::Wanted FoundRanks::wanted_dumps() const {
  using Wanted = FlightRecorders::Wanted;
  if (!ranks_say_so_) return Wanted::no;
  const std::int64_t silent_ms = all_tell_themselves() ? 0 : now_ms() - printed_ms_;
  if (silent_ms > kStalledSilentMs && stalls_.all_stalled(ranks(false), now_ms())) {
    return Wanted::stalled;
  }
  const bool silent = silent_ms > kSilentMs || stopping_since_ms_ != 0 || group_.watch().suspects();
  return silent ? Wanted::silent : Wanted::no;
}

void FoundRanks::ask_flight_recorders() {
  const FlightRecorders::Wanted wanted = wanted_dumps();
  const std::set<int> live = ranks(false);
  if (flights_.step(live, ranks(true), wanted, now_ms()) || wanted == FlightRecorders::Wanted::no) {
    for (const int number : live) group_.watch().held(number, flights_.held().contains(number));
  }
  const bool all_held = !live.empty() && flights_.held() == live;
  group_.watch().hopeless(order_.departed() || (flights_.departed() && all_held));
}

// As rows of the ranks, though it is the controller that read them.
void FoundRanks::record_flights() {
  flights_recorded_ = true;
  std::int64_t t_ms = now_ms();
  for (const FlightDumps& dumps : flights_.newest(ranks(true))) {
    for (const auto& [number, dump] : dumps) record(number, t_ms, flight_fact(dump));
    ++t_ms;  // in the record the newer ones come later
  }
  for (const auto& [of, why] : flights_.unread()) record(of, t_ms, Fact{kUnreadFlightFact, why});
}

bool FoundRanks::failed_before(int number) const {
  const Supervised& mine = group_.all().at(number);
  return std::any_of(group_.all().begin(), group_.all().end(), [&](const auto& entry) {
    const Supervised& other = entry.second;
    if (entry.first == number || other.lives() || is_good(other.end)) return false;
    // Of two that ended at nearly the same time it is not known which ended first. If one of them failed by itself, the other was
    // ended by SIGTERM for it.
    const bool together = std::abs(*other.ended_ms - *mine.ended_ms) <= kTogetherMs;
    const bool by_itself = other.end && other.end->signal != SIGTERM;
    return together ? by_itself : *other.ended_ms < *mine.ended_ms;
  });
}

bool FoundRanks::all_ended_well() const {
  return std::all_of(group_.all().begin(), group_.all().end(), [](const auto& entry) {
    return is_good(entry.second.end);
  });
}

void FoundRanks::record_ends() {
  if (!said_.end && give_up_ms_ == 0) {
    record(kController, now_ms(), Fact{kKeeperEndedFact, told_end(keeper_end_)});
  }
  if (!said_.left.empty()) record(kController, now_ms(), Fact{kWentOnFact, nsa::join(said_.left)});
  if (group_.all().empty() && lives_ended_ == 0)  // it could not be started
    group_.all()[0].process = std::make_unique<FoundProcess>(0);
  record_ends_of_life();
  const bool asks_cards = options_.card_facts && group_.stop_reason() != "interrupted" &&
                          !(all_ended_well() && is_good(said_.end));
  for (const Fact& fact : asks_cards ? options_.card_facts() : std::vector<Fact>())
    record(kController, now_ms(), fact);
  if (command_is_rank()) return;
  Supervised& launcher = group_.all()[kLauncher] = Supervised();
  launcher.process = std::make_unique<FoundProcess>(command_);
  launcher.asked_to_end = asked_command_to_end_;
  launcher.ended_ms = now_ms();
  launcher.end = said_.end;
  group_.record_end(kLauncher, launcher);
  if (is_good(launcher.end)) record(kLauncher, now_ms(), Done{});
}

void FoundRanks::record_ends_of_life() {
  words_.read();
  complete_ranks();
  for (auto& [number, rank] : group_.all()) complete_end(number, rank);
  for (auto& [number, rank] : group_.all()) {
    const bool closed = words_.printed().closed.contains(rank.process->pid());
    const bool cascade =
        rank.end && rank.end->signal == SIGTERM && ranks_say_so_ && failed_before(number);
    // What is left when the command has ended is ended by its keeper.
    const bool left = rank.end && rank.end->signal != 0 && rank.process->pid() != command_ &&
                      command_ended_ms_ && *rank.ended_ms > *command_ended_ms_;
    rank.by_launcher = closed || cascade || left;
    group_.record_end(number, rank);
    // All that can be asked of a command is that it exits with 0.
    if (is_good(rank.end)) record(number, *rank.ended_ms, Done{});
  }
  record_error_files();
  words_.record(group_.all(), !group_.was_stopped(), group_);
  if (!flights_recorded_ && (!all_ended_well() || flights_.departed())) record_flights();
}

// What a script with @record wrote: it tells whose exception it is.
void FoundRanks::record_error_files() {
  for (auto& [number, rank] : group_.all()) {
    if (is_good(rank.end) || rank.told_error) continue;
    const auto error = read_error_file(rank.error_file);
    if (!error) continue;
    record(number, *rank.ended_ms, *error);
    rank.told_error = true;
  }
}

// Ranks that ended before any scan could find them, as where there is no such script.
void FoundRanks::complete_ranks() {
  const std::map<int, pid_t>& failed = words_.printed().table;
  const auto first = group_.all().find(0);
  const bool none_found = first != group_.all().end() && first->second.process->pid() == command_;
  if (ranks_say_so_ || failed.empty() || !none_found) return;
  group_.all().clear();
  for (const auto& [number, pid] : failed) {
    group_.all()[number].process = std::make_unique<FoundProcess>(pid);
    record(kController, now_ms(), Started{number, pid});
  }
  ranks_say_so_ = true;
}

// What the keeper and the launcher tell of it, where /proc did not.
void FoundRanks::complete_end(int number, Supervised& rank) {
  const pid_t pid = rank.process->pid();
  const bool passed_on = !ranks_say_so_ && !rank.end && number == 0;
  if ((pid == command_ || passed_on) && said_.end) rank.end = said_.end;
  if (rank.lives()) rank.ended_ms = now_ms();
  const Printed& printed = words_.printed();
  const auto told = printed.exit_codes.find(pid);
  if (!rank.end && told != printed.exit_codes.end()) rank.end = as_torchrun_tells(told->second);
  const auto spawned = printed.spawned.find(number);
  if (!rank.end && number >= 0 && spawned != printed.spawned.end())
    rank.end = as_torchrun_tells(spawned->second);
}

// "rank 1 exited with 1: ValueError: no data", of those that nothing else ended.
std::string FoundRanks::how_life_ended() const {
  std::vector<std::string> ended;
  for (const auto& [number, rank] : group_.all()) {
    const bool failed = number != kLauncher && rank.end && !is_good(rank.end);
    const bool closed = words_.printed().closed.contains(rank.process->pid());
    if (!failed || closed || rank.end->signal == SIGTERM) continue;
    ended.push_back(process_name(number) + " " + told_end(rank.end));
    for (const PrintedError& printed : words_.errors()) {
      if (printed.rank.value_or(number) != number) continue;
      constexpr std::size_t kLongest = 120;
      ended.back() += ": " + printed.error.type + ": " + printed.error.what.substr(0, kLongest);
      break;
    }
  }
  if (ended.empty())
    return all_ended_well() ? Relaunched::kWell : "they ended, and how is not known";
  return nsa::join(ended, "; ");
}

}  // namespace harness
