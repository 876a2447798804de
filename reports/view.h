// What sections print: the rows of the runs of a report, read once and put in order. Plain values; nothing is judged here
// and nothing is looked up later.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/store/bisection.h"
#include "harness/store/store.h"
#include "reports/report.h"

namespace reports {

struct Arrivals {  // the gradient ledger of one rank
  int rank = 0;
  std::int64_t steps = 0;
  std::int64_t parameters = 0;      // named in the ledger
  std::int64_t once = 0;            // of them: reached, ready once, not none, in every step
  std::vector<std::string> others;  // the rest, by name
};

struct PhaseTime {
  int process = 0;
  std::string phase;
  std::int64_t ms = 0;
};

struct FileRow {
  int process = 0;
  std::string path;
  std::int64_t bytes = 0;
  std::string hash;
};

struct CaseView {
  harness::CaseRecord record;
  harness::RunRecord run;
  std::optional<harness::Case> the_case;        // absent when its JSON cannot be read
  std::optional<harness::CaseRecord> previous;  // the newest judged one before this run
  bool failed_earlier = false;                  // at some time before `previous`
  std::string unreadable;                       // why there is no evidence, "" when there is
  std::vector<Arrivals> arrivals;
  std::vector<PhaseTime> phases;
  std::vector<FileRow> files;
  std::map<std::string, std::map<int, std::vector<double>>>
      series;  // loss, ...: by rank, in order of steps
  std::string device, backend, torch_version, parameters;

  [[nodiscard]] harness::Outcome outcome()
      const;  // SKIP when skipped, INCONCLUSIVE when never judged
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] std::string planted() const;  // name of the planted fault, "" for none
  [[nodiscard]] bool expects() const;         // the scenario says what must be found
};

struct NotRun {
  std::string scenario;
  std::string label;
};

struct ReportView {
  const ReportRequest& request;
  std::vector<CaseView> cases;  // of all runs, oldest first, in the order of the runs
  std::vector<NotRun> not_run;  // what the run before ran and this one does not have, by label
  std::string decision;
  std::vector<harness::CaseRecord> trials;     // of all bisections
  std::vector<harness::Bisection> bisections;  // point into `trials`
};

// Throws: nsa::Error from the store.
[[nodiscard]] ReportView make_view(const harness::Store& store, const ReportRequest& request);

}  // namespace reports
