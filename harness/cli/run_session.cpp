#include "harness/cli/run_session.h"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <random>
#include <unistd.h>

#include "harness/checks/list.h"
#include "harness/cli/output.h"
#include "harness/cli/prune.h"
#include "harness/cli/signals.h"
#include "harness/core/exit_code.h"
#include "harness/core/rebuild.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"
#include "reports/report.h"

namespace harness::cli {
namespace {

namespace fs = std::filesystem;

std::int64_t now_ms() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             system_clock::now().time_since_epoch())
      .count();
}

// Sortable, and different for two runs of the same second: 20261121T041900Z-1a2b.
std::string run_name(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  std::string name(32, '\0');
  name.resize(std::strftime(name.data(), name.size(), "%Y%m%dT%H%M%SZ-", &utc));
  std::random_device random;
  for (int i = 0; i < 4; ++i) name += "0123456789abcdef"[random() % 16];
  return name;
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw nsa::Error("cannot make the folder " + path + ": " + error.message());
  if (access(path.c_str(), W_OK) != 0) throw nsa::Error("cannot write in the folder " + path);
}

// "01_ddp_onestep": a label may hold what no file name should.
std::string case_folder_name(std::size_t index, const Case& the_case) {
  const std::string number = std::to_string(index + 1);
  return std::string(number.size() < 2 ? 1 : 0, '0') + number + "_" + the_case.scenario.name;
}

Judgement error_judgement(const std::string& reason) {
  Judgement judgement;
  judgement.outcome = Outcome::error;
  judgement.reason = reason;
  return judgement;
}

}  // namespace

RunSession::RunSession(RunPlan plan)
    : plan_(std::move(plan)), progress_(ProgressLine::style_for(plan_.quiet)) {
  record_.started_ms = now_ms();
  record_.name = run_name(record_.started_ms);
  record_.folder = plan_.runs_folder + "/" + record_.name;
  record_.provenance = plan_.provenance;
  make_folder(record_.folder);
  try {
    store_ = Store::open(plan_.database, true);
    record_.id = store_->begin_run(record_);
    plan_cases();
  } catch (...) {
    std::error_code ignored;  // the first error is the one to tell
    fs::remove(record_.folder + "/" + kRunFile, ignored);
    fs::remove(record_.folder, ignored);
    fs::remove(plan_.runs_folder, ignored);  // only if it was made for this run: it goes when empty
    throw;
  }
}

void RunSession::plan_cases() {
  std::vector<CaseRecord> all;
  for (std::size_t i = 0; i < plan_.cases.size(); ++i) {
    const Case& the_case = plan_.cases[i];
    CaseRecord planned;
    planned.run_id = record_.id;
    planned.position = static_cast<int>(i);
    planned.scenario = the_case.scenario.name;
    planned.label = the_case.label();
    planned.case_id = the_case.id;
    planned.case_json = case_to_json(the_case);
    planned.folder = case_folder_name(i, the_case);
    if (!plan_.unmet_is_error) planned.skip_reason = plan_.unmet[i];
    rows_.push_back(store_->plan_case(planned));
    all.push_back(planned);
  }
  write_run_file(record_, all);
}

void RunSession::tell(const std::string& line) {
  progress_.clear();
  log_line(line);
}

template <typename Write>
bool RunSession::record_or_tell(Write write) {
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
  for (std::size_t i = 0; i < plan_.cases.size(); ++i) {
    if (interrupted() != 0) {
      incomplete_ = true;
      tell("interrupted: " + std::to_string(plan_.cases.size() - i) + " of " +
           std::to_string(plan_.cases.size()) + " cases were not run");
      break;
    }
    run_planned(i);
  }
  progress_.clear();
  finish();
}

void RunSession::show_result(Outcome outcome,
                             std::size_t index,
                             double seconds,
                             const std::string& reason) {
  progress_.clear();
  if (plan_.on_result) {
    plan_.on_result(outcome_line(name_of(outcome), plan_.cases[index].label(), seconds, reason));
  }
}

void RunSession::run_planned(std::size_t index) {
  const std::string& unmet = plan_.unmet[index];
  if (!unmet.empty() && !plan_.unmet_is_error) {
    outcomes_.push_back(Outcome::skip);
    show_result(Outcome::skip, index, 0.0, unmet);
    return;
  }
  if (!unmet.empty()) {
    settle(index, error_judgement(unmet), 0.0);
    return;
  }
  Evidence evidence;
  double seconds = 0.0;
  const Judgement judgement = attempt(index, evidence, seconds);
  settle(index, judgement, seconds);
  if (judgement.outcome == Outcome::pass && !plan_.keep) prune_case(evidence);
}

std::string RunSession::begin_attempt(std::size_t index) {
  const Case& the_case = plan_.cases[index];
  progress_.begin_case(
      the_case.label(), static_cast<int>(index) + 1, static_cast<int>(plan_.cases.size()));
  record_or_tell([&] { store_->begin_case(rows_[index], now_ms()); });
  std::string folder = record_.folder + "/" + case_folder_name(index, the_case);
  make_folder(folder);
  return folder;
}

RunResult RunSession::run_attempt(std::size_t index, Evidence& evidence) {
  const Case& the_case = plan_.cases[index];
  RunnerOptions options;
  options.folder = begin_attempt(index);
  options.worker = plan_.worker;
  options.environment =
      worker_environment(plan_.environment, the_case.scenario, plan_.machine.cores);
  options.interrupted = &interrupted();
  evidence.the_case = the_case;
  evidence.folder = options.folder;
  bool storing =
      true;  // ends at the first failure: a database that hangs must not hold up the watch over the ranks
  RunnerHooks hooks;
  hooks.on_event = [&](const Event& event) {
    evidence.add(event);
    progress_.on_event(event);
    if (storing) storing = record_or_tell([&] { store_->add_event(rows_[index], event); });
  };
  hooks.on_tick = [&] { progress_.on_tick(); };
  return run_case(the_case, options, hooks);
}

Judgement RunSession::attempt(std::size_t index, Evidence& evidence, double& seconds) {
  RunResult result;
  try {
    result = run_attempt(index, evidence);
  } catch (const nsa::Error& error) {
    return error_judgement(error.what());
  }
  seconds = result.seconds;
  if (result.interrupted) incomplete_ = true;
  if (result.recording_failed) {
    record_or_tell([&] { throw nsa::Error(result.recording_error); });
  }
  record_or_tell([&] { store_->finish_case(rows_[index], seconds); });
  return judge(evidence, all_checks());
}

void RunSession::settle(std::size_t index, const Judgement& judgement, double seconds) {
  outcomes_.push_back(judgement.outcome);
  record_or_tell([&] { store_->add_judgement(rows_[index], judgement, now_ms()); });
  show_result(judgement.outcome, index, seconds, judgement.reason);
}

void RunSession::finish() {
  exit_code_ = harness::exit_code(outcomes_, incomplete_);
  record_.ended_ms = now_ms();
  record_.exit_code = exit_code_;
  record_.complete = !incomplete_;
  record_or_tell(
      [&] { store_->finish_run(record_.id, exit_code_, !incomplete_, record_.ended_ms); });
  exit_code_ = harness::exit_code(outcomes_, incomplete_);
}

void RunSession::write_report() {
  reports::ReportRequest request;
  request.runs = {store_->run_named(record_.name).value_or(record_)};
  request.check_about = check_about();
  report_path_ = record_.folder + "/report.md";
  write_file(report_path_, reports::render_report(*store_, request));
}

}  // namespace harness::cli
