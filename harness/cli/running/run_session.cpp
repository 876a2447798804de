#include "harness/cli/running/run_session.h"

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <random>
#include <unistd.h>

#include "harness/checks/kernel/first_wrong_trial.h"
#include "harness/checks/list.h"
#include "harness/checks/process/level_course.h"
#include "harness/cli/machine/card_health.h"
#include "harness/cli/output.h"
#include "harness/cli/running/python_frames.h"
#include "harness/cli/running/room.h"
#include "harness/cli/running/standing_line.h"
#include "harness/cli/signals.h"
#include "harness/judge/asked.h"
#include "harness/run/build_info.h"
#include "harness/run/clock.h"
#include "harness/run/record/run_folder.h"
#include "harness/scenario/bisect.h"
#include "harness/scenario/exit_code.h"
#include "harness/scenario/experiment.h"
#include "harness/store/bisection.h"
#include "harness/store/prune.h"
#include "harness/store/run_files.h"
#include "harness/store/verdict_log.h"
#include "harness/strategies/list.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/secrets.h"
#include "nsa/base/text.h"
#include "reports/report.h"

namespace harness::cli {
namespace {

namespace fs = std::filesystem;

// Sortable, and different for runs of the same second, of which a bundle makes many: 20261121T041900Z-1a2b3c4d.
std::string run_name(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  std::string name(32, '\0');
  name.resize(std::strftime(name.data(), name.size(), "%Y%m%dT%H%M%SZ-", &utc));
  std::random_device random;
  constexpr int kDigits = 8;
  for (int i = 0; i < kDigits; ++i) name += "0123456789abcdef"[random() % 16];
  return name;
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) nsa::throw_write_error("make the folder", path, error.value());
  if (access(path.c_str(), W_OK) != 0) nsa::throw_write_error("write in the folder", path, errno);
}

// "01_ddp_onestep": a label may hold what no file name should.
std::string case_folder_name(std::size_t index, const Case& the_case) {
  const std::string number = std::to_string(index + 1);
  return std::string(number.size() < 2 ? 1 : 0, '0') + number + "_" + the_case.scenario.name;
}

Capacity capacity_of(const Machine& machine) {
  Capacity capacity;
  capacity.cores = machine.cores;
  capacity.memory_gib = machine.memory_gib();
  for (const Gpu& gpu : machine.gpus) capacity.gpu_memory_gib.push_back(gpu.memory_gib());
  return capacity;
}

// A command is kept by another process of this program.
constexpr const char* kThisProgram = "/proc/self/exe";
// In the Python package: holds sitecustomize.py alone.
constexpr const char* kHookFolder = "/nsa_harness/hook";

// `folder` behind the others of this list of folders: what the user has set comes first.
void add_last(std::vector<std::string>& environment,
              const std::string& name,
              const std::string& folder) {
  for (std::string& one : environment) {
    if (!one.starts_with(name + "=")) continue;
    one += ":" + folder;
    return;
  }
  environment.push_back(name + "=" + folder);
}

// An empty folder in a list of folders would be the current one.
void add_first(std::vector<std::string>& environment,
               const std::string& name,
               const std::string& folder) {
  std::string folders = folder;
  std::erase_if(environment, [&](const std::string& one) {
    if (!one.starts_with(name + "=")) return false;
    if (one.size() > name.size() + 1) folders += ":" + one.substr(name.size() + 1);
    return true;
  });
  environment.push_back(name + "=" + folders);
}

// The user's own, all of it, and what the two lines need.
std::vector<std::string> command_environment(const RunPlan& plan) {
  std::vector<std::string> environment = as_texts(own_variables());
  if (plan.hooks_command) add_first(environment, "PYTHONPATH", plan.package + kHookFolder);
  if (!plan.fingerprint.empty()) {
    environment.push_back("NSA_HARNESS_FINGERPRINT=" + plan.fingerprint);
  }
  return environment;
}

Judgement error_judgement(const std::string& reason) {
  Judgement judgement;
  judgement.outcome = Outcome::error;
  judgement.reason = nsa::without_secrets(reason);
  return judgement;
}

}  // namespace

RunSession::RunSession(RunPlan plan)
    : plan_(std::move(plan)),
      // What a command prints takes the place of a line about its progress.
      progress_(ProgressLine::style_for(plan_.quiet || !plan_.live.empty())) {
  record_.started_ms = wall_clock_ms();
  record_.name = run_name(record_.started_ms);
  record_.folder = plan_.runs_folder + "/" + record_.name;
  record_.provenance = plan_.provenance;
  make_folder(record_.folder);
  try {
    nsa::sync_folder(plan_.runs_folder);
    store_ = Store::open(plan_.database, true, &log_line);
    record_.id = store_->begin_run(record_);
    for (std::size_t point = 0; point < plan_.cases.size(); ++point) {
      const Case& base = plan_.cases[point];
      const Strategy& strategy = strategies::strategy_for(base.scenario);
      first_.push_back(plan_cases(point, strategy.next(base, {})));
    }
    write_plan();
  } catch (...) {
    std::error_code ignored;  // the first error is the one to tell
    fs::remove(record_.folder + "/" + kRunFile, ignored);
    fs::remove(record_.folder, ignored);
    fs::remove(plan_.runs_folder, ignored);  // only if it was made for this run: it goes when empty
    throw;
  }
}

RunSession::Indices RunSession::plan_cases(std::size_t point, std::vector<Case> cases) {
  Indices indices;
  for (Case& the_case : cases) {
    const std::size_t index = planned_.size();
    CaseRecord record;
    record.run_id = record_.id;
    record.position = static_cast<int>(index);
    record.scenario = the_case.scenario.name;
    record.label = the_case.label();
    record.case_id = the_case.id;
    record.case_json = case_to_json(the_case);
    record.folder = case_folder_name(index, the_case);
    if (!plan_.unmet[point].is_error) record.skip_reason = plan_.unmet[point].why;
    record.id = store_->plan_case(record);
    planned_.push_back({point, std::move(the_case), std::move(record)});
    indices.push_back(index);
  }
  return indices;
}

void RunSession::write_plan() const {
  write_run_file(record_, records());
}

RunSession::Planned& RunSession::planned(std::size_t index) {
  const std::lock_guard lock(mutex_);
  return planned_[index];
}

std::size_t RunSession::planned_count() {
  const std::lock_guard lock(mutex_);
  return planned_.size();
}

void RunSession::tell(const std::string& line) {
  progress_.aside([&] { log_line(line); });
}

template <typename Write>
bool RunSession::record_or_tell(Write write) {
  const std::lock_guard lock(mutex_);
  try {
    write();
    return true;
  } catch (const std::exception& error) {
    incomplete_ = true;
    if (told_ != error.what()) {
      tell(std::string("CANNOT RECORD, this run is incomplete: ") + error.what());
    }
    told_ = error.what();
    return false;
  }
}

void RunSession::run() {
  const auto run_one = [this](std::size_t point, const Place& place) { run_point(point, place); };
  run_side_by_side(needs_of_points(), capacity_of(plan_.machine), run_one, plan_.order);
  if (ran_ < planned_.size() && interrupted() != 0) {
    tell("interrupted: " + std::to_string(planned_.size() - ran_) + " of " +
         std::to_string(planned_.size()) + " cases were not run");
  }
  progress_.clear();
  finish();
}

std::vector<Needs> RunSession::needs_of_points() const {
  std::vector<Needs> needs;
  for (std::size_t point = 0; point < plan_.cases.size(); ++point) {
    needs.push_back(needs_of(plan_.cases[point].scenario));
    if (plan_.unmet[point].why.empty()) continue;
    needs.back() = Needs{};  // it will not run
    needs.back().alone = false;
  }
  return needs;
}

// It was planned as a case to run, so its row stays, with the judgement that it was skipped.
void RunSession::leave_out(const Indices& waiting, const std::string& why) {
  Attempt none;
  none.judgement.outcome = Outcome::skip;
  none.judgement.reason = why;
  for (const std::size_t index : waiting) {
    (void)settle(index, none);
    note_end(index, none.evidence);
    ++ran_;
  }
}

void RunSession::run_point(std::size_t point, const Place& place) {
  const bool asks = plan_.cut && plan_.unmet[point].why.empty() && interrupted() == 0;
  const std::string why = asks ? plan_.cut(point) : "";
  if (!why.empty()) {
    leave_out(first_[point], why);
    return;
  }
  Indices tried;
  for (Indices waiting = first_[point]; !waiting.empty(); waiting = plan_next(point, tried)) {
    for (const std::size_t index : waiting) {
      if (interrupted() != 0) {
        incomplete_ = true;
        return;
      }
      run_planned(index, place);
      ++ran_;
      tried.push_back(index);
    }
  }
}

RunSession::Indices RunSession::plan_next(std::size_t point, const Indices& tried) {
  Indices planned;
  record_or_tell([&] {
    const Indices added = plan_cases(point, next_of(point, tried));
    if (!added.empty()) write_plan();
    planned = added;
  });
  return planned;
}

std::vector<Case> RunSession::next_of(std::size_t point, const Indices& tried) const {
  const Case& base = plan_.cases[point];
  std::vector<Tried> seen;
  std::vector<const CaseRecord*> records;
  for (const std::size_t index : tried) {
    const Planned& one = planned_[index];
    records.push_back(&one.record);
    if (!is_experiment(one.the_case)) seen.push_back({&one.the_case, outcome_of(one.record)});
  }
  std::vector<Case> next = strategies::strategy_for(base.scenario).next(base, seen);
  const bool all_passed = std::all_of(
      seen.begin(), seen.end(), [](const Tried& one) { return one.outcome == Outcome::pass; });
  if (next.empty() && all_passed && plan_.again && plan_.again(point, seen.size())) {
    next.push_back(base);
    next.back().point.emplace_back(kLaunchAxis, std::to_string(seen.size() + 1));
  }
  if (next.empty() && plan_.more) next = plan_.more(point, records);
  return next;
}

void RunSession::show_result(Outcome outcome,
                             std::size_t index,
                             double seconds,
                             const std::string& reason) {
  echo_.reset();
  if (!plan_.on_result) return;
  const std::string& label = planned(index).record.label;
  progress_.aside([&] { plan_.on_result(outcome, label, seconds, reason); });
}

void RunSession::run_planned(std::size_t index, const Place& place) {
  const Unmet& unmet = plan_.unmet[planned(index).point];
  if (!unmet.why.empty() && !unmet.is_error) {
    note_end(index, {});
    show_result(Outcome::skip, index, 0.0, unmet.why);
    return;
  }
  const Attempt made =
      unmet.why.empty() ? attempt(index, place) : Attempt{error_judgement(unmet.why), {}, {}, 0.0};
  const Case& the_case = planned(index).the_case;
  note_end(index, made.evidence);
  const bool good =
      !is_failure(made.judgement.outcome) || is_trial(the_case) || is_experiment(the_case);
  progress_.end_case(static_cast<int>(index) + 1, good);
  const bool stored = settle(index, made);
  const bool needed = made.judgement.outcome != Outcome::pass && !is_experiment(the_case);
  if (stored && !needed && !plan_.keep) {
    remove_files(made.evidence.folder, made.digest.files);
  }
}

std::string RunSession::begin_attempt(std::size_t index) {
  const Planned& begun = planned(index);
  progress_.begin_case(
      begun.the_case.label(), static_cast<int>(index) + 1, static_cast<int>(planned_count()));
  record_or_tell([&] {
    Planned& mine = planned_[index];
    mine.record.started_ms = wall_clock_ms();
    store_->begin_case(mine.record.id, mine.record.started_ms);
  });
  std::string folder = record_.folder + "/" + begun.record.folder;
  make_folder(folder);
  const std::string lacking = too_little_room(folder, begun.the_case.scenario);
  if (!lacking.empty() && !begun.the_case.scenario.is_command()) throw nsa::Error(lacking);
  if (!lacking.empty())
    tell(lacking + "; the command runs all the same, and its record may end early");
  return folder;
}

std::vector<std::string> RunSession::environment_of(const Scenario& scenario,
                                                    const Place& place) const {
  if (scenario.is_command()) return command_environment(plan_);
  std::vector<std::string> environment =
      worker_environment(plan_.environment, scenario, plan_.machine.cores);
  if (scenario.is_foreign() && !plan_.package.empty())
    add_last(environment, "PYTHONPATH", plan_.package);
  if (scenario.parallel.device != nsa::Device::cuda) return environment;
  // By their ids: CUDA counts cards in another order than nvidia-smi, and a rank must run on the card that was looked at.
  const std::string name = "CUDA_VISIBLE_DEVICES=";
  std::erase_if(environment, [&](const std::string& one) { return one.starts_with(name); });
  std::vector<std::string> ids;
  for (const int card : place.gpus) {
    ids.push_back(plan_.machine.gpus.at(static_cast<std::size_t>(card)).id);
  }
  environment.push_back(name + nsa::join(ids, ","));
  return environment;
}

void RunSession::note_end(std::size_t index, const Evidence& evidence) {
  const std::lock_guard lock(mutex_);
  Planned& ended = planned_[index];
  ended.has_ended = true;
  if (ended.the_case.scenario.has_check(kComparesLevels)) {
    ended.shown = checks::shown_at_level(evidence);
  }
}

std::vector<OtherLevel> RunSession::other_levels(std::size_t index) {
  const std::lock_guard lock(mutex_);
  const Scenario& own = planned_[index].the_case.scenario;
  std::vector<OtherLevel> shown;
  if (!own.has_check(kComparesLevels)) return shown;
  for (const Planned& other : planned_) {
    if (!checks::differ_in_level_alone(own, other.the_case.scenario)) continue;
    if (!other.has_ended) return {};
    if (other.shown) shown.push_back(*other.shown);
  }
  return shown;
}

RunResult RunSession::run_attempt(std::size_t index, const Place& place, Evidence& evidence) {
  const Planned& mine = planned(index);
  const Case& the_case = mine.the_case;
  const int position = static_cast<int>(index) + 1;
  RunnerOptions options;
  options.folder = begin_attempt(index);
  options.built_from = built_source_hash();
  options.texts = record_.folder + "/texts";
  options.worker = the_case.scenario.is_foreign()   ? plan_.python
                   : the_case.scenario.is_command() ? kThisProgram
                                                    : plan_.worker;
  if (options.worker.empty()) {
    throw nsa::Error(
        "no Python to run the kernel: found no python3 on PATH; NSA_HARNESS_PYTHON names one");
  }
  options.environment = environment_of(the_case.scenario, place);
  options.interrupted = &interrupted();
  options.frames_of = &python_frames;
  options.launch = plan_.launch;
  options.guardian = kThisProgram;
  options.other_levels = other_levels(index);
  if (the_case.scenario.is_command() && !plan_.live.empty()) {
    options.live = plan_.live;
    tell("runs " + mine.record.label + "; the record is in " + options.folder);
    echo_ = std::make_unique<OutputEcho>(options.folder, plan_.live.at(0), plan_.live.at(1));
  }
  evidence.the_case = the_case;
  evidence.folder = options.folder;
  if (the_case.scenario.is_foreign())
    options.first_wrong = [&evidence] { return checks::first_wrong_trial(evidence); };
  RunnerHooks hooks;
  StandingLine standing([this](const std::string& line) { tell(line); }, !plan_.quiet);
  const bool is_command = the_case.scenario.is_command();
  if (is_command) {
    const auto cards = std::make_shared<CardWatch>();
    if (cards->has_cards()) options.card_facts = [cards] { return cards->facts(); };
    options.asked = &asked_to_tell();
    options.pass_on = &to_pass_on();
  }
  hooks.on_event = [&](const Event& event) {
    progress_.on_event(position, event);
    if (is_command) standing.on_event(event);
  };
  hooks.on_kept = [&](const Event& event) { evidence.add(event); };
  hooks.on_tick = [&] {
    progress_.on_tick();
    standing.on_tick();
  };
  return run_case(the_case, options, hooks);
}

RunSession::Attempt RunSession::attempt(std::size_t index, const Place& place) {
  Attempt made;
  bool stopped_while_it_ran = false;
  try {
    const RunResult result = run_attempt(index, place, made.evidence);
    made.seconds = result.seconds;
    made.events_hash = result.events_hash;
    stopped_while_it_ran = result.interrupted;
    if (stopped_while_it_ran) incomplete_ = true;
    if (result.recording_failed) {
      record_or_tell([&] { throw nsa::Error(result.recording_error); });
    }
  } catch (const nsa::Error& error) {
    if (harness::exit_code(error) == kExitIncomplete) record_or_tell([&] { throw; });
    made.judgement = error_judgement(error.what());
    made.events_hash = hash_of_events(made.evidence.folder);
    return made;
  }
  made.digest = digest_of(made.evidence);
  progress_.begin_judging(static_cast<int>(index) + 1);
  made.judgement = judge(made.evidence, all_checks(), [&] {
    // What was stopped while it ran is judged as far as it came.
    if (stopped_while_it_ran || interrupted() == 0) return false;
    incomplete_ = true;
    return true;
  });
  return made;
}

bool RunSession::settle(std::size_t index, const Attempt& made) {
  StoredJudgement stored;
  stored.judgement = made.judgement;
  stored.judged_ms = wall_clock_ms();
  stored.source_hash = built_source_hash();
  stored.events_hash = made.events_hash;
  const bool in_folder = record_or_tell([&] {
    const CaseRecord& record = planned_[index].record;
    make_folder(record_.folder + "/" + record.folder);  // a case that was refused has none yet
    log_judgement(record_, record, {{record.started_ms, made.seconds}, stored});
  });
  const bool in_database = record_or_tell([&] {
    Planned& settled = planned_[index];
    settled.record.judgement = made.judgement;
    settled.record.seconds = made.seconds;
    if (made.digest.recorded) {
      store_->finish_case(settled.record.id, made.seconds, made.digest);
    }
    store_->add_judgement(settled.record.id, stored);
  });
  show_result(made.judgement.outcome, index, made.seconds, made.judgement.reason);
  return in_folder && in_database;
}

std::vector<CaseRecord> RunSession::records() const {
  std::vector<CaseRecord> records;
  records.reserve(planned_.size());
  for (const Planned& planned : planned_) records.push_back(planned.record);
  return records;
}

int RunSession::code_of_outcomes() const {
  return harness::exit_code(outcomes_that_count(records()), incomplete_);
}

void RunSession::finish() {
  exit_code_ = code_of_outcomes();
  // By the clock that nobody sets: the times of a run tell how long it took.
  record_.ended_ms = record_.started_ms + (monotonic_ms() - began_ms_);
  record_.exit_code = exit_code_;
  record_.complete = !incomplete_;
  record_or_tell([&] { write_end_file(record_); });
  exit_code_ = code_of_outcomes();
  record_or_tell(
      [&] { store_->finish_run(record_.id, exit_code_, !incomplete_, record_.ended_ms); });
  exit_code_ = code_of_outcomes();
}

void RunSession::write_report() {
  reports::ReportRequest request;
  request.runs = {store_->run_named(record_.name).value_or(record_)};
  request.check_about = check_about();
  report_path_ = record_.folder + "/report.md";
  nsa::write_durably(report_path_, reports::render_report(*store_, request));
}

}  // namespace harness::cli
