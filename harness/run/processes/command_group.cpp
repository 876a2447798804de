#include "harness/run/processes/command_group.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>
#include <vector>

#include "harness/evidence/evidence.h"
#include "harness/evidence/hosts.h"
#include "harness/evidence/raised.h"
#include "harness/run/processes/keeper.h"
#include "harness/run/processes/process_end.h"
#include "harness/run/processes/users_torch.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr std::int64_t kScanMs = 250;
constexpr std::int64_t kProgressMs = 250;
constexpr std::int64_t kSilentMs = 2'000;  // each dump costs a rank milliseconds
constexpr std::int64_t kStalledSilentMs =
    1'000;  // where no rank's main thread seems to go on either
// torchrun gives the ranks 30 s to end on SIGTERM, and then they meet anew.
constexpr std::int64_t kRestartMs = 60'000;
constexpr std::int64_t kLastDumpMs = 3'000;
constexpr std::int64_t kKeeperMs = 10'000;  // it ends the tree in three seconds

std::optional<std::streamoff> bytes_of(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? std::nullopt : std::optional(static_cast<std::streamoff>(bytes));
}

bool has_ended(const Fd& pidfd) {
  pollfd ended = {pidfd.get(), POLLIN, 0};
  return !pidfd.is_open() || poll(&ended, 1, 0) > 0;
}

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

CommandGroup::CommandGroup(const RunnerOptions& options,
                           const SupervisorLimits& limits,
                           std::int64_t origin_ms,
                           const ProcessRequest& keeper,
                           EventSink& sink)
    : options_(options),
      sink_(sink),
      callers_(options.folder),
      flights_(options.folder),
      digests_(options.folder),
      watch_(limits,
             origin_ms,
             sink,
             [this](int number, Observation& seen) {
               put_stacks(number, seen);
               return false;  // nothing is awaited
             }),
      intake_(watch_, sink, options.folder),
      keeper_(Process::spawn(with_address(keeper, callers_.address(), origin_ms, flights_))),
      output_(keeper.out_path, keeper.err_path),
      tree_(keeper_.pid()),
      memory_kills_before_(options.memory.kills()),
      printouts_{{output_.out_path()}, {output_.err_path()}} {}

void CommandGroup::run() {
  while (!keeper_.reaped()) {
    wait_for_something();
    hear_keeper();
    hear();
    scan();
    notice_ends();
    watch_launcher();
    ask_flight_recorders();
    obey();
    decide();
    press_on();
    sink_.flush();
    if (now_ms() - ticked_ms_ < kProgressMs) continue;
    ticked_ms_ = now_ms();
    sink_.tick();
  }
  hear();
  hear_keeper();
  record_ends();
  sink_.flush();
}

void CommandGroup::wait_for_something() const {
  std::vector<pollfd> waited = {{keeper_.pidfd(), POLLIN, 0}};
  for (const auto& [number, rank] : ranks_) {
    if (!rank.ended_ms) waited.push_back({rank.pidfd.get(), POLLIN, 0});
  }
  callers_.add_to(waited);
  const int ready = poll(waited.data(), waited.size(), callers_.interval_ms());
  if (ready < 0 && errno != EINTR) usleep(callers_.interval_ms() * 1000);
}

void CommandGroup::hear_keeper() {
  const KeeperSaid said = harness::hear_keeper(keeper_.events(), said_by_keeper_);
  command_end_ = said.end;
  left_ = said.left;
  if (command_ != 0 || said.command == 0) return;
  command_ = said.command;
  command_fd_ = watch_end(command_);
  meet(0, command_);
}

void CommandGroup::meet(int number, pid_t pid) {
  Rank& rank = ranks_[number];
  rank = Rank{pid, watch_end(pid), std::nullopt, std::nullopt};
  watch_.started(number, pid);
}

void CommandGroup::scan() {
  if (command_ == 0 || now_ms() - scanned_ms_ < kScanMs) return;
  scanned_ms_ = now_ms();
  tree_.scan(scanned_ms_);
  find_ranks();
  find_worker();
  find_outputs();
  for (auto& [number, rank] : ranks_) {
    if (rank.ended_ms) continue;
    rank.peak_bytes = std::max(rank.peak_bytes, peak_resident_bytes_of(rank.pid));
    stalls_.seen(number, main_thread_switches_of(rank.pid), scanned_ms_);
  }
  // A rank that was asked for a dump says so on stderr: what comes there until the answer is no movement.
  const bool printed = output_.more(flights_.asked_lately(scanned_ms_));
  if (printed) printed_ms_ = scanned_ms_;
  const bool seen = printed || tree_.computed(held_pids());
  if (seen && !all_tell_themselves()) watch_.moved();
}

void CommandGroup::find_ranks() {
  const std::vector<FoundRank> all = tree_.ranks();
  for (const FoundRank& found : all) {
    most_restarts_ = std::max(most_restarts_, found.most_restarts);
    if (ranks_say_so_ && found.restarts > restarts_) begin_life(found.restarts);
    restarts_ = std::max(restarts_, found.restarts);
  }
  for (const FoundRank& found : all) {
    if (found.restarts < restarts_) continue;  // left of the life before
    note_world(found.world);
    const auto known = ranks_.find(found.rank);
    // What an ended rank left behind has its number too: the first that had it is the rank.
    if (known != ranks_.end() && (ranks_say_so_ || known->second.pid == found.pid)) {
      ranks_say_so_ = true;
      continue;
    }
    meet_rank(found.rank, found.pid);
  }
}

// A shell, or another process that only waits for one that it has started, is no rank. What it starts one after the other are
// lives.
void CommandGroup::find_worker() {
  if (ranks_say_so_ || command_ended_ms_) return;
  const auto rank = ranks_.find(0);
  const bool has_one = rank != ranks_.end() && !rank->second.ended_ms;
  const pid_t worker = tree_.worker(has_one ? rank->second.pid : command_);
  const bool twice = std::exchange(worker_, worker) == worker;
  if (!twice || worker == command_ || (rank != ranks_.end() && rank->second.pid == worker)) return;
  if (has_one && rank->second.said_hello) return;  // it trains, and waits for a tool
  if (rank != ranks_.end() && !has_one) begin_life(restarts_);
  meet(0, worker);
}

// What a process prints may go to a file of the user's own: nohup, a redirect of a shell, a launcher with a folder of logs.
void CommandGroup::find_outputs() {
  constexpr std::size_t kMost = 256;  // processes, and files
  const std::vector<pid_t>& all = tree_.processes();
  std::vector<pid_t> pids;
  for (const auto& [number, rank] : ranks_) pids.push_back(rank.pid);
  for (std::size_t i = 0; i < all.size() && i < kMost; ++i) {
    for (const char* stream : {"/fd/1", "/fd/2"}) {
      std::error_code error;
      const std::string link = "/proc/" + std::to_string(all[i]) + stream;
      const std::string path = std::filesystem::read_symlink(link, error).string();
      const bool own = path == output_.out_path() || path == output_.err_path();
      if (error || own || !std::filesystem::is_regular_file(path, error)) continue;
      auto at = std::find_if(printouts_.begin(), printouts_.end(), [&](const Printout& known) {
        return known.path == path;
      });
      if (at == printouts_.end()) {
        if (printouts_.size() == kMost + 2) continue;  // two are of the record
        at = printouts_.insert(at, Printout{path});
        at->from = bytes_of(path).value_or(0);
      }
      const pid_t owner = tree_.owner(all[i], pids);
      for (const auto& [number, rank] : ranks_) {
        if (rank.pid == owner) at->ranks.insert(number);
      }
    }
  }
}

// Of the first process that says that it is a rank on, the command is none by itself.
void CommandGroup::meet_rank(int number, pid_t pid) {
  const auto first = ranks_.find(0);
  if (!ranks_say_so_ && number != 0 && first != ranks_.end() && !first->second.says_so) {
    watch_.ended(0, true, "");
    ranks_.erase(first);
  }
  ranks_say_so_ = true;
  meet(number, pid);
}

void CommandGroup::note_world(int world) {
  if (world <= world_) return;
  world_ = world;
  record(kController, now_ms(), Fact{kWorldSizeFact, std::to_string(world_)});
}

// The processes of the life before are gone, or about to go: what counts from here on is what their successors do.
void CommandGroup::begin_life(int restarts) {
  notice_ends();
  if (ranks_.erase(kLauncher) > 0) watch_.ended(kLauncher, true, "");  // it goes on
  for (auto& [number, rank] : ranks_) {
    if (!rank.ended_ms) end(number, rank, std::nullopt);
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
  printed_ = Printed();
  for (Printout& printout : printouts_) {
    printout.ranks.clear();
    printout.from = bytes_of(printout.path).value_or(printout.from);
  }
  ranks_.clear();
  world_ = 0;
  // The new ones meet with what the old ones left in the launcher's store: a wait for that is the launcher's to end.
  restarting_since_ms_ = restarts > restarts_ ? now_ms() : 0;
  restarts_ = restarts;
}

void CommandGroup::put_stacks(int number, Observation& seen) const {
  const pid_t pid = ranks_.at(number).pid;
  callers_.ask_for_flight(pid);
  put_python_frames(pid, options_.frames_of, seen);
}

void CommandGroup::hear() {
  callers_.read([this](pid_t pid, LineReader::Piece piece, std::string_view text) {
    on_line(pid, piece, text);
  });
}

void CommandGroup::on_line(pid_t pid, LineReader::Piece piece, std::string_view text) {
  const int number = number_of(pid, text);
  const std::optional<Event> event = intake_.take(number, piece, text);
  if (!event) return;
  order_.heard(*event);
  for (const auto& [of, row] : digests_.heard(*event)) record(of, now_ms(), row);
  Rank& rank = ranks_.at(number);
  if (event->kind == Hello::kKind) rank.said_hello = true;
  if (event->kind == WorkerError::kKind) rank.told_error = true;
  if (event->kind != Fact::kKind) return;
  const auto fact = event->body.get<Fact>();
  constexpr std::int64_t kMostRanks = 1'000'000;
  if (fact.name == kWorldSizeFact)
    note_world(static_cast<int>(std::min(nsa::parse_int(fact.value).value_or(0), kMostRanks)));
}

// A process that is known as a rank is that rank. Another one is the rank that it says, if that is new; else it belongs to the
// rank that it descends from.
int CommandGroup::number_of(pid_t pid, std::string_view line) {
  if (!tree_.knows(pid) && sought_.insert(pid).second) {
    tree_.scan(now_ms());
    find_ranks();
  }
  for (const auto& [number, rank] : ranks_) {  // of nearly every line; a line may be long
    if (rank.pid == pid && (ranks_say_so_ || rank.says_so)) return number;
  }
  constexpr int kMostRanks = 1'000'000;
  const auto row = nlohmann::json::parse(line, nullptr, false);
  const bool tells =
      row.is_object() && row.contains("process") && row["process"].is_number_integer();
  const int said = tells ? std::clamp(row["process"].get<int>(), 0, kMostRanks) : 0;
  std::vector<pid_t> pids;
  for (auto& [number, rank] : ranks_) {
    if (rank.pid != pid) {
      pids.push_back(rank.pid);
      continue;
    }
    if (!tells || said == number) {
      rank.says_so = tells;
      return number;
    }
    meet_rank(said, pid);  // it was taken for rank 0
    ranks_.at(said).says_so = true;
    return said;
  }
  const auto known = ranks_.find(said);
  if (known == ranks_.end() || (!ranks_say_so_ && !known->second.says_so)) {
    meet_rank(said, pid);
    ranks_.at(said).says_so = true;
    return said;
  }
  const pid_t owner = tree_.owner(pid, pids);
  for (const auto& [number, rank] : ranks_) {
    if (owner != 0 && rank.pid == owner) return number;
  }
  return said;
}

// Counters tell more than processor time: a rank that spins does not move.
bool CommandGroup::all_tell_themselves() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
    return entry.second.said_hello || entry.second.ended_ms;
  });
}

void CommandGroup::notice_ends() {
  ++rounds_;
  for (auto& [number, rank] : ranks_) {
    if (rank.ended_ms) continue;
    if (has_ended(rank.pidfd)) end(number, rank, end_of_stranger(rank.pid, rank.pidfd.get()));
  }
  if (command_ != 0 && !command_ended_ms_ && has_ended(command_fd_)) command_ended_ms_ = now_ms();
  if (keeper_.exited()) keeper_end_ = keeper_.reap();
}

void CommandGroup::end(int number, Rank& rank, std::optional<ExitStatus> status) {
  rank.ended_ms = now_ms();
  rank.ended_in = rounds_;
  rank.end = status;
  rank.pidfd.reset();
  const bool restarts = number != kLauncher && !is_good(status) && restarts_ < most_restarts_;
  if (restarts) restarting_since_ms_ = now_ms();
  const bool goes_on = !ranks_say_so_ && rank.pid != command_;  // the shell may start another one
  const bool well = is_good(status) || restarts || goes_on || (!status && number != kLauncher);
  watch_.ended(number, well, told_end(status));
}

// A command that goes on after its ranks is waited for like them.
void CommandGroup::watch_launcher() {
  const bool ranks_live = std::any_of(
      ranks_.begin(), ranks_.end(), [](const auto& entry) { return !entry.second.ended_ms; });
  if (command_ == 0 || ranks_live || command_is_rank()) return;
  meet(kLauncher, command_);
}

bool CommandGroup::command_is_rank() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
    return entry.second.pid == command_;
  });
}

// What the user asks for or sends while the command runs.
void CommandGroup::obey() {
  if (options_.asked != nullptr && options_.asked->load() != told_) {
    told_ = options_.asked->load();
    watch_.look_for_user();
  }
  if (options_.pass_on == nullptr || command_ == 0 || command_ended_ms_) return;
  const std::uint64_t sent = options_.pass_on->exchange(0);
  for (const int number : kPassedOn) {
    if ((sent >> number & 1U) != 0) keeper_.signal(number);
  }
}

void CommandGroup::decide() {
  if (options_.interrupted != nullptr) {
    if (const int signal = options_.interrupted->load(); signal != 0) watch_.interrupt(signal);
  }
  const bool restarts = restarting_since_ms_ != 0 && !command_ended_ms_ &&
                        now_ms() - restarting_since_ms_ < kRestartMs;
  if (restarts) watch_.moved();
  if (const auto stopped = watch_.step()) {
    stop_reason_ = stopped->reason;
    stopped_ms_ = now_ms();
    const bool wants_dumps = stop_reason_ == "still" || stop_reason_ == "budget";
    if (wants_dumps && flights_.held().empty()) flights_.ask_at_last(ranks(false), now_ms());
  }
  const bool waits = !flights_.done() && now_ms() - stopped_ms_ < kLastDumpMs;
  if (stop_reason_.empty() || kill_at_ms_ != 0 || waits) return;
  end_all();
}

void CommandGroup::end_all() {
  record_flights();
  sink_.flush();  // the record says why before anything is ended
  keeper_.signal(SIGTERM);
  kill_at_ms_ = now_ms() + kKeeperMs;
}

std::set<int> CommandGroup::ranks(bool with_ended) const {
  std::set<int> numbers;
  for (const auto& [number, rank] : ranks_) {
    if (number != kLauncher && (with_ended || !rank.ended_ms)) numbers.insert(number);
  }
  return numbers;
}

// A rank that waits for its peers may do so in a loop: its processor time tells nothing then.
std::set<pid_t> CommandGroup::held_pids() const {
  std::set<pid_t> pids;
  for (const int number : flights_.waiting()) {
    if (const auto at = ranks_.find(number); at != ranks_.end()) pids.insert(at->second.pid);
  }
  return pids;
}

// Ranks that tell of themselves are asked only where they seem to stand still.
FlightRecorders::Wanted CommandGroup::wanted_dumps() const {
  using Wanted = FlightRecorders::Wanted;
  if (!ranks_say_so_) return Wanted::no;
  const std::int64_t silent_ms = all_tell_themselves() ? 0 : now_ms() - printed_ms_;
  if (silent_ms > kStalledSilentMs && stalls_.all_stalled(ranks(false), now_ms())) {
    return Wanted::stalled;
  }
  const bool silent = silent_ms > kSilentMs || watch_.suspects() || !stop_reason_.empty();
  return silent ? Wanted::silent : Wanted::no;
}

void CommandGroup::ask_flight_recorders() {
  const FlightRecorders::Wanted wanted = wanted_dumps();
  const std::set<int> live = ranks(false);
  if (flights_.step(live, ranks(true), wanted, now_ms()) || wanted == FlightRecorders::Wanted::no) {
    for (const int number : live) watch_.held(number, flights_.held().contains(number));
  }
  const bool all_held = !live.empty() && flights_.held() == live;
  watch_.hopeless(order_.departed() || (flights_.departed() && all_held));
}

// As rows of the ranks, though it is the controller that read them.
void CommandGroup::record_flights() {
  flights_recorded_ = true;
  std::int64_t t_ms = now_ms();
  for (const FlightDumps& dumps : flights_.newest(ranks(true))) {
    for (const auto& [number, dump] : dumps) record(number, t_ms, flight_fact(dump));
    ++t_ms;  // in the record the newer ones come later
  }
  for (const auto& [of, why] : flights_.unread()) record(of, t_ms, Fact{kUnreadFlightFact, why});
}

void CommandGroup::press_on() {
  if (kill_at_ms_ == 0 || now_ms() < kill_at_ms_) return;
  record(kController,
         now_ms(),
         Fact{"process_left", "processes of the command do not end on SIGKILL"});
  keeper_.signal(SIGKILL);
  killed_keeper_ = true;
  kill_at_ms_ = now_ms() + kKeeperMs;
}

bool CommandGroup::failed_before(int number) const {
  const Rank& mine = ranks_.at(number);
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
    const Rank& other = entry.second;
    if (entry.first == number || !other.ended_ms || is_good(other.end)) return false;
    // Of two that were noticed in one look nobody knows which ended first. Who is ended by SIGTERM beside one that failed was told
    // to.
    const bool together = other.ended_in == mine.ended_in;
    const bool by_itself = other.end && other.end->signal != SIGTERM;
    return together ? by_itself : *other.ended_ms < *mine.ended_ms;
  });
}

void CommandGroup::record_ends() {
  if (!command_end_ && !killed_keeper_) {
    record(kController, now_ms(), Fact{kKeeperEndedFact, told_end(keeper_end_)});
  }
  if (!left_.empty()) record(kController, now_ms(), Fact{kWentOnFact, nsa::join(left_)});
  if (ranks_.empty() && lives_ended_ == 0) ranks_[0];  // it could not be started
  record_ends_of_life();
  if (!command_is_rank()) {
    ranks_[kLauncher] = Rank{command_, Fd(), now_ms(), command_end_};
    record_end(kLauncher, ranks_.at(kLauncher));
  }
}

void CommandGroup::record_ends_of_life() {
  std::map<int, std::string> last_lines;
  for (const Printout& printout : printouts_) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(printout.path, error))
      continue;  // the command's own doing
    std::ifstream stream(printout.path);
    stream.seekg(printout.from);
    const bool own = printout.path == output_.out_path() || printout.path == output_.err_path();
    const bool one = printout.ranks.size() == 1;
    const std::string before = printed_.last_line;
    if (!own) printed_.last_line.clear();
    read_printed(stream, printed_, one ? std::optional(*printout.ranks.begin()) : std::nullopt);
    if (own) continue;
    if (one && !printed_.last_line.empty())
      last_lines[*printout.ranks.begin()] = printed_.last_line;
    printed_.last_line = before;
  }
  // Ranks that ended before any scan could find them, as where there is no such script.
  if (!ranks_say_so_ && !printed_.table.empty() && ranks_.contains(0) &&
      ranks_.at(0).pid == command_) {
    ranks_.clear();
    for (const auto& [number, pid] : printed_.table) {
      ranks_[number].pid = pid;
      record(kController, now_ms(), Started{number, pid});
    }
    ranks_say_so_ = true;
  }
  for (auto& [number, rank] : ranks_) {
    const bool passed_on = !ranks_say_so_ && !rank.end && number == 0;
    if ((rank.pid == command_ || passed_on) && command_end_) rank.end = command_end_;
    if (!rank.ended_ms) rank.ended_ms = now_ms();
    const auto told = printed_.exit_codes.find(rank.pid);
    if (!rank.end && told != printed_.exit_codes.end()) rank.end = as_torchrun_tells(told->second);
    const auto spawned = printed_.spawned.find(number);
    if (!rank.end && number >= 0 && spawned != printed_.spawned.end())
      rank.end = as_torchrun_tells(spawned->second);
  }
  for (const auto& [number, rank] : ranks_) {
    intake_.finish(number);
    record_end(number, rank);
  }
  record_errors(last_lines);
  record_aborts();
  const bool all_well = std::all_of(
      ranks_.begin(), ranks_.end(), [](const auto& entry) { return is_good(entry.second.end); });
  if (!flights_recorded_ && (!all_well || flights_.departed())) record_flights();
  for (const std::string& line : printed_.nccl) record(kController, now_ms(), Fact{"nccl", line});
}

// "rank 1 exited with 1: ValueError: no data", of those that nobody else ended.
std::string CommandGroup::how_life_ended() const {
  std::vector<std::string> ended;
  for (const auto& [number, rank] : ranks_) {
    const bool failed = number != kLauncher && rank.end && !is_good(rank.end);
    if (!failed || printed_.closed.contains(rank.pid) || rank.end->signal == SIGTERM) continue;
    ended.push_back(process_name(number) + " " + told_end(rank.end));
    for (const PrintedError& printed : printed_.errors) {
      if (printed.rank.value_or(number) != number) continue;
      constexpr std::size_t kLongest = 120;
      ended.back() += ": " + printed.error.type + ": " + printed.error.what.substr(0, kLongest);
      break;
    }
  }
  const bool all_well = std::all_of(
      ranks_.begin(), ranks_.end(), [](const auto& entry) { return is_good(entry.second.end); });
  if (ended.empty()) return all_well ? Relaunched::kWell : "they ended, and how is not known";
  return nsa::join(ended, "; ");
}

void CommandGroup::record_end(int number, const Rank& rank) {
  if (!rank.end) return;  // how it ended is not known
  Exited exited;
  exited.process_ended = number;
  exited.exit_code = rank.end->signal != 0 ? -1 : rank.end->exit_code;
  exited.signal = rank.end->signal;
  exited.core_dumped = rank.end->core_dumped;
  exited.by_controller = !stop_reason_.empty() && *rank.ended_ms >= stopped_ms_;
  const bool closed = printed_.closed.contains(rank.pid);
  const bool cascade = rank.end->signal == SIGTERM && ranks_say_so_ && failed_before(number);
  // Who is left when the command has ended is ended by its keeper.
  const bool left = rank.end->signal != 0 && rank.pid != command_ && command_ended_ms_ &&
                    *rank.ended_ms > *command_ended_ms_;
  exited.by_launcher = !exited.by_controller && (closed || cascade || left);
  if (exited.signal == SIGKILL && !exited.by_controller) {
    const MemoryKill kill = memory_kill_of_ranks();
    exited.out_of_memory = kill == MemoryKill::this_case;
    exited.memory_kill_elsewhere = kill == MemoryKill::somebody;
  }
  record(kController, *rank.ended_ms, exited);
  // All that can be asked of a command is that it exits with 0.
  if (is_good(rank.end)) record(number, *rank.ended_ms, Done{});
}

// As for ranks of this program's own: what they held together tells whose memory it was.
MemoryKill CommandGroup::memory_kill_of_ranks() const {
  std::int64_t held = 0;
  for (const auto& [number, rank] : ranks_) held += rank.peak_bytes;
  return memory_kill(
      options_.memory.kills() - memory_kills_before_, held, options_.memory.usable_bytes());
}

// As for tracebacks, of ranks that a signal ended.
void CommandGroup::record_aborts() {
  const auto record_all = [&](const auto& rows, const char* name, bool aborted) {
    std::vector<int> ended;
    for (const auto& [number, rank] : ranks_) {
      const int signal = rank.end ? rank.end->signal : 0;
      const bool counts = aborted ? signal == SIGABRT : signal != 0 && signal != SIGTERM;
      if (number != kLauncher && counts) ended.push_back(number);
    }
    for (const auto& [of, said] : rows) {
      const bool known = of && ranks_.contains(*of);
      if (!known && ended.size() != 1) continue;
      const int number = known ? *of : ended.front();
      record(number, *ranks_.at(number).ended_ms, Fact{name, said});
    }
  };
  record_all(printed_.aborts, kAbortedFact, true);
  record_all(printed_.fatal_lines, kFatalLineFact, false);
}

namespace {

// Of several that were printed: the last one; beside others, which complain of the one that failed, the last that does not
// complain.
const WorkerError& own_error(const std::vector<const PrintedError*>& printed, bool beside_others) {
  const auto own = std::find_if(printed.rbegin(), printed.rend(), [&](const auto* one) {
    return !beside_others || raised_as(one->error).failure != Failure::communication;
  });
  return own == printed.rend() ? printed.back()->error : (*own)->error;
}

}  // namespace

// A traceback that names no rank is of the only one that failed by itself, or of all of them if all say the same; else nobody is
// blamed for it. Where there is none, the last line may say why: sys.exit("no such dataset").
void CommandGroup::record_errors(const std::map<int, std::string>& last_lines) {
  std::vector<int> failed;
  for (const auto& [number, rank] : ranks_) {
    const bool by_itself = rank.end && rank.end->signal == 0 && rank.end->exit_code != 0;
    if (number != kLauncher && by_itself) failed.push_back(number);
  }
  if (!printed_.launcher_said.empty())
    record(kLauncher, now_ms(), Fact{kLastLineFact, printed_.launcher_said});
  const bool alone = ranks(true).size() == 1;
  for (const PrintedError& printed : printed_.of_threads) {
    const bool known = printed.rank && ranks_.contains(*printed.rank);
    record(known   ? *printed.rank
           : alone ? *ranks(true).begin()
                   : kController,
           now_ms(),
           Fact{kThreadDiedFact, told_error(printed.error)});
  }
  if (printed_.errors.empty()) printed_.errors = printed_.of_threads;  // nothing else says why
  std::set<int> told;
  std::vector<const PrintedError*> of_nobody;
  for (const PrintedError& printed : printed_.errors) {
    if (!printed.rank || !ranks_.contains(*printed.rank)) {
      of_nobody.push_back(&printed);
      continue;
    }
    const Rank& rank = ranks_.at(*printed.rank);
    if (is_good(rank.end)) continue;
    told.insert(*printed.rank);
    if (!rank.told_error) record(*printed.rank, *rank.ended_ms, printed.error);
  }
  // What is printed last is then of one of them, or all say the same.
  const bool alike_ends = std::all_of(failed.begin(), failed.end(), [&](int number) {
    return ranks_.at(number).end->exit_code == ranks_.at(failed.front()).end->exit_code;
  });
  std::erase_if(failed,
                [&](int number) { return told.contains(number) || ranks_.at(number).told_error; });
  const bool alike = std::all_of(of_nobody.begin(), of_nobody.end(), [&](const auto* one) {
    return nlohmann::json(one->error) == nlohmann::json(of_nobody.front()->error);
  });
  for (const int number : failed) {
    const Rank& rank = ranks_.at(number);
    if (!of_nobody.empty() && (alike || failed.size() == 1)) {
      record(number, *rank.ended_ms, own_error(of_nobody, ranks(true).size() > 1));
    } else if (of_nobody.empty()) {
      const auto own = last_lines.find(number);
      const std::string line = own != last_lines.end() ? own->second
                               : alike_ends            ? printed_.last_line
                                                       : "";
      if (!line.empty()) record(number, *rank.ended_ms, Fact{kLastLineFact, line});
    }
  }
  const bool told_all = !failed.empty() && (alike || failed.size() < 2);
  if (told_all || !stop_reason_.empty()) return;
  constexpr std::size_t kMost = 4;
  if (of_nobody.size() > kMost) of_nobody.resize(kMost);
  for (const PrintedError* one : of_nobody) {
    record(
        kController, now_ms(), Fact{kSomebodysErrorFact, one->error.type + ": " + one->error.what});
  }
}

}  // namespace harness
