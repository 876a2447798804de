#include "harness/run/runner.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include "harness/evidence/evidence.h"
#include "harness/evidence/hosts.h"
#include "harness/foreign/trials.h"
#include "harness/run/join/launched_ranks.h"
#include "harness/run/looks/machine_state.h"
#include "harness/run/meeting.h"
#include "harness/run/processes/found_ranks.h"
#include "harness/run/processes/guardian.h"
#include "harness/run/processes/keeper.h"
#include "harness/run/processes/left_behind.h"
#include "harness/run/record/kept_text.h"
#include "harness/run/record/run_folder.h"
#include "harness/run/supervision.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

constexpr useconds_t kMillisecondUs = 1'000;

// "" where there is none, or no file that can be read.
std::string loader_line(const std::string& path) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 20;
  try {
    const std::string text = nsa::read_file(path, kLongest);
    return text.substr(0, text.find('\n'));
  } catch (const nsa::Error&) {
    return "";
  }
}

// What the dynamic loader wrote before `program` began: "PROGRAM: ... : cannot open shared object file"; "" of all else.
std::string loader_error(const std::string& path, const std::string& program) {
  constexpr std::array kWords = {"error while loading shared libraries: ",
                                 "symbol lookup error: ",
                                 " not found (required by "};
  const std::string line = loader_line(path);
  const std::string begin = program + ": ";
  if (!line.starts_with(begin)) return "";
  const bool known = std::any_of(kWords.begin(), kWords.end(), [&](const char* words) {
    return line.find(words) != std::string::npos;
  });
  return known ? line.substr(begin.size()) : "";
}

// At most 20 lines, each as a terminal shows it in the end: what stands before a carriage return is overwritten. "": there is none.
std::string last_lines(const std::string& path) {
  constexpr std::streamoff kMostBytes = 64 << 10;
  constexpr std::size_t kMostLines = 20;
  constexpr std::size_t kLongest = 400;  // bytes of a line
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kMostBytes));
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    line = line.substr(line.rfind('\r') + 1);  // npos + 1 is 0
    if (line.empty()) continue;
    if (line.size() > kLongest) line = line.substr(0, kLongest) + " ...";
    lines.push_back(std::move(line));
    if (lines.size() > kMostLines) lines.pop_front();
  }
  return nsa::join(std::vector<std::string>(lines.begin(), lines.end()), "\n");
}

std::string write_case(Case the_case, const RunnerOptions& options) {
  keep_text(the_case.scenario.training.data,
            options.texts.empty() ? options.folder : options.texts);
  std::string path = options.folder + "/" + kCaseFile;
  nsa::write_durably(path, case_to_json(the_case) + "\n");
  return path;
}

// One case on its way: what its ranks and its twin have in common.
class CaseRun {
 public:
  CaseRun(const Case& the_case, const RunnerOptions& options, const RunnerHooks& hooks)
      : case_(the_case),
        options_(options),
        origin_ms_(monotonic_ms()),
        ranks_(static_cast<int>(the_case.scenario.parallel.ranks)),
        case_file_(write_case(the_case, options)),
        listener_(listen_on_loopback()),
        sink_(options.folder, hooks),
        mark_(draw_mark(options.folder)) {
    if (!options.guardian.empty())
      guardian_.emplace(Process::spawn(guardian_of(mark_, options.guardian)));
  }

  RunResult run() {
    if (case_.scenario.is_command()) sink_.fold_steps();
    for (const Fact& fact : machine_facts()) record(fact);
    if (mark_.number == 0)
      record(Fact{"marked_by", "a variable alone: RLIMIT_LOCKS has no effect"});
    if (!options_.built_from.empty()) record(Fact{kBuiltFromFact, options_.built_from});
    for (const OtherLevel& other : options_.other_levels) record(other);
    if (case_.scenario.is_foreign()) {
      for (const Artefact& trial : write_trials(case_.scenario, options_.folder)) record(trial);
    }
    const std::string stop_reason = run_processes();
    end_what_is_left();
    note_full_disk();
    note_unstartable();
    note_last_lines();
    sink_.finish();
    return {static_cast<double>(now_ms()) / 1000.0,
            stop_reason == "interrupted",
            sink_.failed(),
            sink_.error(),
            sink_.hash()};
  }

 private:
  // Gives why they were stopped, "" when they ended by themselves.
  std::string run_processes() {
    try {
      const std::string reason = case_.scenario.is_command() ? run_command() : run_ranks();
      if (!well_ || (interrupted() == 0 && !wants_twin())) return reason;
      if (interrupted() == 0) return run_twin();
    } catch (...) {
      (void)end_left_behind(mark_);
      throw;
    }
    record(Stopped{"interrupted", "before the twin was started", now_ms()});
    return "interrupted";
  }

  [[nodiscard]] bool wants_twin() {
    if (options_.first_wrong) trial_ = options_.first_wrong();
    return trial_.has_value() || case_.scenario.has_twin();
  }

  [[nodiscard]] std::int64_t now_ms() const { return monotonic_ms() - origin_ms_; }
  [[nodiscard]] int interrupted() const {
    return options_.interrupted != nullptr ? options_.interrupted->load() : 0;
  }

  template <typename Row>
  void record(const Row& row) {
    sink_.add(Event::of(kController, now_ms(), row));
  }

  [[nodiscard]] SupervisorLimits limits(int ranks_in_turn) const {
    SupervisorLimits limits;
    limits.still = options_.still;
    limits.look_apart_ms = options_.look_apart_ms;
    limits.peer_grace_ms = options_.peer_grace_ms;
    constexpr double kLongestMs = 1e12;  // far beyond any run, and still an integer
    const double budget_ms = case_.scenario.budget_seconds * 1000.0 * ranks_in_turn;
    limits.budget_ms = static_cast<std::int64_t>(std::clamp(budget_ms, 0.0, kLongestMs));
    return limits;
  }

  // All lives of the ranks share one budget.
  [[nodiscard]] SupervisorLimits limits_of_life() const {
    SupervisorLimits left = limits(1);
    if (life_ > 0) left.budget_ms = std::max<std::int64_t>(1, left.budget_ms - now_ms());
    return left;
  }

  [[nodiscard]] ProcessRequest request(int process) {
    const std::string name = process == kTwin ? "twin" : "rank_" + std::to_string(process);
    ProcessRequest request;
    request.argv = {options_.worker};
    if (case_.scenario.is_foreign()) {
      request.argv.insert(request.argv.end(), {"-m", "nsa_harness.kernel_process"});
    }
    const auto option = [&](const char* key, const std::string& value) {
      request.argv.insert(request.argv.end(), {key, value});
    };
    option("--case", case_file_);
    if (process == kTwin) {
      request.argv.emplace_back("--twin");
      if (trial_) option("--trial", std::to_string(*trial_));
    } else {
      option("--rank", std::to_string(process));
    }
    option("--world", std::to_string(ranks_));
    option("--folder", options_.folder);
    if (process != kTwin && life_ > 0) option("--life", std::to_string(life_));
    request.environment = options_.environment;
    request.out_path = options_.folder + "/" + name + ".out";
    request.err_path = options_.folder + "/" + name + ".err";
    error_files_.push_back(request.err_path);
    return request;
  }

  // Of a process of this machine.
  [[nodiscard]] ProcessRequest request_here(int process) {
    ProcessRequest here = request(process);
    if (process == 0) here.passed = {listener_.fd.get()};
    Meeting meeting;
    meeting.port = listener_.port;
    meeting.origin_ms = origin_ms_;
    add_meeting(meeting, here);
    put_mark(here);
    return here;
  }

  void put_mark(ProcessRequest& request) const {
    request.environment.push_back(mark_.variable);
    request.mark = mark_.number;
  }

  // Of a command there is nothing left, but where its keeper was killed.
  void end_what_is_left() {
    const LeftBehind left = end_left_behind(mark_);
    if (!left.ended.empty()) record(Fact{kLeftBehindFact, nsa::join(left.ended)});
    if (!left.stayed.empty()) record(Fact{kStayedFact, nsa::join(left.stayed)});
  }

  // What ranks do on a full disk looks like many other failures: whoever judges must know.
  void note_full_disk() {
    constexpr std::uintmax_t kFull = std::uintmax_t{1} << 20;  // some blocks are always left over
    std::error_code error;
    const auto space = std::filesystem::space(options_.folder, error);
    if (error || space.available >= kFull) return;
    record(Fact{kDiskFullFact, std::to_string(space.available) + " bytes left"});
  }

  // A worker that the loader could not start says nothing itself, and nothing of the model ran.
  void note_unstartable() {
    for (const std::string& path : error_files_) {
      const std::string said = loader_error(path, options_.worker);
      if (said.empty()) continue;
      record(Fact{kCannotStartFact, said});
      return;
    }
  }

  // Of ranks that ended well they would say nothing; of a command only the record tells how it ended.
  void note_last_lines() {
    if (well_) return;
    for (const std::string& path : error_files_) {
      const std::string lines = last_lines(path);
      if (lines.empty()) continue;
      record(Fact{kLastLinesFact, std::filesystem::path(path).filename().string() + "\n" + lines});
    }
  }

  // Gives why it was stopped, "" when it ended by itself.
  std::string run_command() {
    ProcessRequest keeper;
    keeper.argv = {options_.worker, kKeepArgument};
    const std::vector<std::string>& command = case_.scenario.command.argv;
    keeper.argv.insert(keeper.argv.end(), command.begin(), command.end());
    keeper.environment = options_.environment;
    put_mark(keeper);
    keeper.out_path = options_.folder + "/" + kCommandOutFile;
    keeper.err_path = options_.folder + "/" + kCommandErrFile;
    error_files_.push_back(keeper.err_path);
    keeper.passed = options_.live;
    SupervisorLimits of_command = limits(1);
    constexpr std::int64_t kPollsFloors = 8;  // a file that comes after a minute is no hang
    of_command.still.polls_ms = kPollsFloors * of_command.still.floor_ms;
    of_command.loading_floors = 0;  // what its processor time tells, the group tells
    FoundRanks ranks(options_, of_command, origin_ms_, keeper, sink_);
    ranks.run();
    return ranks.stop_reason();
  }

  // Gives why they were stopped, "" when they ended by themselves.
  std::string run_ranks() {
    const LifeConfig& life = case_.scenario.life;
    std::optional<PlannedKill> kill;
    if (life.kill_step > 0) kill = PlannedKill{life.kill_step, life.kill_phase, life.kill_after_ms};
    const std::string reason = run_life(kill);
    if (!killed_) return reason;
    if (interrupted() != 0) {
      record(Stopped{"interrupted", "before the ranks were started again", now_ms()});
      return "interrupted";
    }
    relaunch(life);
    return run_life(std::nullopt);
  }

  std::string run_life(const std::optional<PlannedKill>& kill) {
    Supervision group(options_, limits_of_life(), origin_ms_, sink_);
    if (kill) group.plan_kill(*kill);
    std::unique_ptr<LaunchedRanks> launched;
    if (options_.launch.words.empty()) {
      start_here(group);
    } else {
      const bool cards = case_.scenario.parallel.device == nsa::Device::cuda;
      launched = std::make_unique<LaunchedRanks>(options_, ranks_, cards, mark_.number);
      if (!launched->gather()) return stop_before_ranks();
      add_launched(*launched, group);
    }
    group.run();
    if (launched) note_launcher(*launched, group.lost_one());
    killed_ = group.was_killed();
    well_ = group.all_well() && !group.was_stopped();
    return group.stop_reason();
  }

  void start_here(Supervision& group) {
    for (int rank = 0; rank < ranks_; ++rank) {
      group.start(rank, request_here(rank));
      // Rank 0 holds it now: were the controller's copy open, nobody would be refused after rank 0's end.
      listener_.fd.reset();
    }
  }

  void add_launched(LaunchedRanks& launched, Supervision& group) {
    for (const Fact& fact : launched.facts()) record(fact);
    std::vector<ProcessRequest> requests;
    for (int rank = 0; rank < ranks_; ++rank) requests.push_back(request(rank));
    const std::int64_t oom_kills = options_.memory.kills();
    auto ranks = launched.start(requests, origin_ms_);
    for (int rank = 0; rank < ranks_; ++rank) {
      group.add(rank, std::move(ranks[static_cast<std::size_t>(rank)]), oom_kills);
    }
  }

  void note_launcher(LaunchedRanks& launched, bool lost_one) {
    if (const auto fact = launched.finish(lost_one)) record(*fact);
  }

  std::string stop_before_ranks() {
    record(Stopped{"interrupted", "before the ranks had joined", now_ms()});
    return "interrupted";
  }

  // Times tell the lives apart: all of the next one is later than the event.
  void relaunch(const LifeConfig& life) {
    ++life_;
    record(Relaunched{
        life_, "killed in step " + std::to_string(life.kill_step) + ", phase " + life.kill_phase});
    const std::int64_t at_ms = now_ms();
    while (now_ms() <= at_ms) usleep(kMillisecondUs);
    listener_ = listen_on_loopback();
  }

  // The twin does the ranks' work one after the other, so it has as much time for each.
  std::string run_twin() {
    Supervision group(options_, limits(ranks_), origin_ms_, sink_);
    group.start(kTwin, request_here(kTwin));
    group.run();
    return group.stop_reason();
  }

  const Case& case_;
  const RunnerOptions& options_;
  std::int64_t origin_ms_;
  int ranks_;
  std::string case_file_;
  Listener listener_;
  EventSink sink_;
  std::vector<std::string> error_files_;  // what each process writes on its stderr
  std::optional<int> trial_;              // that the twin of a foreign kernel calls
  int life_ = 0;                          // of the ranks that run
  bool killed_ = false;                   // as the scenario asks, in the life before
  bool well_ = false;
  CaseMark mark_;
  std::optional<Process> guardian_;  // of the mark
};

}  // namespace

RunResult run_case(const Case& the_case, const RunnerOptions& options, const RunnerHooks& hooks) {
  return CaseRun(the_case, options, hooks).run();
}

}  // namespace harness
