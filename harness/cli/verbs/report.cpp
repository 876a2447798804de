#include "reports/report.h"

#include <algorithm>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>

#include "harness/cli/find_run.h"
#include "harness/cli/machine/provenance.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/cli/verify_report.h"
#include "harness/run/clock.h"
#include "harness/scenario/exit_code.h"
#include "harness/store/bisection.h"
#include "harness/store/case_evidence.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "reports/range.h"
#include "reports/sections/failures.h"
#include "reports/timeline.h"

namespace harness::cli {
namespace {

struct ReportArguments {
  std::string run;
  std::string since;
  std::string format = "engineer";
  std::string database;
  std::string out;
  std::string html;
  std::string verify;
};

int local_offset_minutes(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm local = {};
  localtime_r(&seconds, &local);
  return static_cast<int>(local.tm_gmtoff / 60);
}

const std::map<std::string, reports::Format>& formats() {
  static const std::map<std::string, reports::Format> all = {
      {"engineer", reports::Format::engineer},
      {"summary", reports::Format::summary},
      {"html", reports::Format::html},
      {"json", reports::Format::json},
      {"junit", reports::Format::junit},
      {"github", reports::Format::github},
      {"perfetto", reports::Format::perfetto}};
  return all;
}

// The runs of the range; none, and which run was the last said on stderr, when it is empty.
std::vector<RunRecord> runs_since(const Store& store,
                                  const std::string& words,
                                  std::string& range_text) {
  const std::string tree = find_paths().tree;
  const reports::Range range = reports::parse_since(
      words, wall_clock_ms(), local_offset_minutes, [&](const std::string& commit) {
        return commit_time_ms(tree, commit);
      });
  range_text = range.text;
  std::vector<RunRecord> runs = store.runs(range.since_ms, range.until_ms);
  const std::optional<RunRecord> last = store.last_run();
  if (runs.empty()) {
    log_line("no run from " + range.text +
             (last
                  ? "; the last is " + last->name + " of " +
                        reports::time_text(last->started_ms, local_offset_minutes(last->started_ms))
                  : "; none is stored yet"));
  }
  return runs;
}

// What each process did when, of cases whose events are still in the run's folder: those that failed, and for a trace
// all others after them.
std::map<std::int64_t, reports::Timeline> timelines_of(const Store& store,
                                                       const std::vector<RunRecord>& runs,
                                                       bool of_all) {
  constexpr std::size_t kMost = 60;  // as many as the page shows, and as a browser opens quickly
  std::map<std::int64_t, reports::Timeline> all;
  for (const bool failed : {true, false}) {
    for (const RunRecord& run : runs) {
      for (const CaseRecord& record : store.cases(run.id)) {
        if (reports::is_failure(outcome_of(record)) != failed) continue;
        if (all.size() == kMost || (!failed && !of_all)) return all;
        try {
          all[record.id] = reports::timeline_of(read_recorded(run, record).evidence);
        } catch (const std::exception& error) {
          log_line("no timeline of " + record.label + ": " + error.what());
        }
      }
    }
  }
  return all;
}

// A database that an older version made again from a folder may hold judgements of another run. Where each case was judged once,
// how the run ended follows from its rows.
int held_against_ends(const Store& store, const std::vector<RunRecord>& runs) {
  int code = kExitPass;
  for (const RunRecord& run : runs) {
    if (run.exit_code < 0) continue;
    const std::vector<CaseRecord> cases = store.cases(run.id);
    const bool once = std::all_of(
        cases.begin(), cases.end(), [](const CaseRecord& one) { return one.judgements <= 1; });
    const int wanted = exit_code(outcomes_that_count(cases), !run.complete);
    if (!once || wanted == run.exit_code) continue;
    log_line("run " + run.name + " ended with exit code " + std::to_string(run.exit_code) +
             ", but the judgements of its cases give " + std::to_string(wanted) +
             ": they are not those that it made (nsa-harness db rebuild " + run.folder + ")");
    code = kExitError;
  }
  return code;
}

int report(const ReportArguments& arguments) {
  if (!arguments.run.empty() && !arguments.since.empty()) {
    throw nsa::Error("report: found a run and --since, wanted one of them");
  }
  const auto store = Store::open_read_only(database_path(arguments.database), &log_line);
  if (!arguments.verify.empty()) return verify_report(*store, arguments.run, arguments.verify);
  reports::ReportRequest request;
  request.format = arguments.html.empty() ? formats().at(arguments.format) : reports::Format::html;
  request.check_about = check_about();
  if (!arguments.since.empty()) {
    std::vector<reports::Night> nights = reports::split_into_nights(
        runs_since(*store, arguments.since, request.about_range), &local_offset_minutes);
    if (!nights.empty()) {
      request.runs = nights.back().runs;
      request.night = nights.back().name;
      nights.pop_back();
      request.earlier = std::move(nights);
    }
  } else if (const auto run = find_run(*store, arguments.run.empty() ? "last" : arguments.run)) {
    request.runs = {*run};
  }
  if (request.runs.empty()) return kExitNothing;
  const bool trace = request.format == reports::Format::perfetto;
  if (trace || request.format == reports::Format::html) {
    request.timelines = timelines_of(*store, request.runs, trace);
  }
  const std::string text = reports::render_report(*store, request);
  const std::string& out = arguments.html.empty() ? arguments.out : arguments.html;
  if (out.empty()) {
    std::cout << text;
  } else {
    nsa::write_durably(out, text);
    std::cout << out << "\n";
  }
  return held_against_ends(*store, request.runs);
}

}  // namespace

Action add_report(CLI::App& command) {
  const auto arguments = std::make_shared<ReportArguments>();
  command.add_option("run", arguments->run, "A run's name or number (default: the last)");
  CLI::Option* since = command.add_option(
      "--since", arguments->since, "yesterday, 7d, 36h, a date or a commit: all runs since then");
  CLI::Option* format = command
                            .add_option("--format",
                                        arguments->format,
                                        "engineer, summary, html (a page), json, junit (XML), "
                                        "github (an issue), or perfetto (a trace)")
                            ->check(CLI::IsMember(formats()))
                            ->capture_default_str();
  command.add_option("--db",
                     arguments->database,
                     "The database (default: NSA_HARNESS_DB, or in your data folder)");
  CLI::Option* out =
      command.add_option("--out", arguments->out, "A file to write to, instead of printing");
  CLI::Option* html =
      command
          .add_option("--html",
                      arguments->html,
                      "A file for the page in HTML: all of it in one file, for a browser")
          ->excludes(format, out);
  command
      .add_option("--verify",
                  arguments->verify,
                  "Check a run's report.md: does the database give the same, and is that what was "
                  "recorded?")
      ->excludes(since, format, out, html);
  return [arguments] { return report(*arguments); };
}

}  // namespace harness::cli
