#include "harness/cli/running/run_and_tell.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <iostream>
#include <map>
#include <set>
#include <unistd.h>

#include "harness/cli/output.h"
#include "harness/cli/running/told_lines.h"
#include "harness/cli/signals.h"
#include "harness/run/build_info.h"
#include "harness/scenario/exit_code.h"
#include "harness/store/bisection.h"
#include "harness/store/experiments.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"
#include "reports/report.h"

namespace harness::cli {
namespace {

void tell_environment(const Variables& environment) {
  for (const auto& [name, value] : steering_variables(environment)) {
    log_line("inherited from the environment: " + name + "=" + value);
  }
}

// What a person must see without scrolling: the decision, and what failed.
void print_end(const RunSession& session) {
  std::vector<CaseRecord> records = session.records();
  std::erase_if(records, [](const CaseRecord& record) { return is_experiment(record); });
  std::map<Outcome, int> counts;
  for (const CaseRecord& record : records) ++counts[outcome_of(record)];
  std::vector<std::string> parts;
  for (const auto& [outcome, count] : counts) {
    parts.push_back(std::to_string(count) + " " + name_of(outcome));
  }
  std::cout << "\n"
            << reports::decision({session.record()}, records) << ": " << nsa::join(parts) << "\n";
  std::set<const CaseRecord*> trials;  // of a search, which is told by its answer
  for (const Bisection& bisection : bisections_of(records)) {
    trials.insert(bisection.records.begin(), bisection.records.end());
    std::cout << bisection.label << ": " << without_controls(bisection.progress.conclusion) << "\n";
  }
  constexpr int kMost = 20;
  if (records.size() == 1) return;  // its line stands above
  int failures = 0;
  for (const CaseRecord& record : records) {
    if (!is_failure(outcome_of(record)) || trials.contains(&record) || ++failures > kMost) continue;
    print_outcome(
        std::cout, outcome_of(record), record.label, record.seconds, record.judgement->reason);
  }
  if (failures > kMost) std::cout << "and " << failures - kMost << " more\n";
}

// The decision, what failed and the report's path last on stdout, or the one object of --json. Failing to write the report
// leaves the run incomplete; that nobody reads stdout changes nothing about the run.
int print_result(RunSession& session, const Telling& telling, bool quiet) {
  int code = session.exit_code();
  try {
    session.write_report();
    std::string lines;
    nlohmann::json object;
    if (telling.json) {
      const RunRecord record = session.store().run_named(session.record().name).value();
      object = reports::render_json(session.store(), record, session.report_path());
    }
    if (telling.more) telling.more(session.records(), lines, object);
    if (telling.json) {
      // What a command printed may be in it, in whatever encoding.
      std::cout << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    } else {
      if (!quiet) print_end(session);
      std::cout << lines;
      std::cout << session.report_path() << "\n";
    }
  } catch (const nsa::Error& error) {
    log_line(std::string("CANNOT REPORT: ") + error.what());
    code = kExitIncomplete;
  }
  if (!std::cout.flush()) {
    if (telling.json && code == kExitPass) code = kExitIncomplete;  // the object is the result
    log_line("stdout was lost; the run is stored, its exit code is " + std::to_string(code) +
             ", its report is " + session.report_path());
    std::cout.clear();  // told
  }
  return code;
}

ToldLines::Print printing(bool json) {
  return [json](Outcome outcome, const std::string& label, double seconds, const std::string& why) {
    if (json) {
      log_line(outcome_line(name_of(outcome), label, seconds, why));
    } else {
      print_outcome(std::cout, outcome, label, seconds, why);
      std::cout.flush();
    }
  };
}

}  // namespace

bool is_stale(const Manifest& manifest) {
  if (manifest.source_hash == built_source_hash()) return false;
  log_line("stale build: the worker was built from other sources (" + manifest.source_hash +
           ") than this program (" + built_source_hash() + "): build both again");
  return true;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  std::array<char, 16> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", &utc)};
}

int run_and_tell(RunPlan plan, const Telling& telling) {
  const bool quiet = plan.quiet;
  ToldLines lines(printing(telling.json));
  if (!quiet) {
    plan.on_result = [&lines](Outcome outcome,
                              const std::string& label,
                              double seconds,
                              const std::string& why) { lines.add(outcome, label, seconds, why); };
    const bool is_command = std::any_of(plan.cases.begin(), plan.cases.end(), [](const Case& one) {
      return one.scenario.is_command();
    });
    // With --json nothing but the object is on stdout.
    if (is_command) plan.live = {telling.json ? STDERR_FILENO : STDOUT_FILENO, STDERR_FILENO};
  }
  catch_signals();
  const Variables environment = plan.environment;
  RunSession session(std::move(plan));
  if (!quiet) tell_environment(environment);
  session.run();
  lines.end();
  return print_result(session, telling, quiet);
}

}  // namespace harness::cli
