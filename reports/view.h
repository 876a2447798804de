// What sections print: the rows of the runs of a report, read once and put in order. Plain values; nothing is judged here
// and nothing is looked up later.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/diagnose/recorded.h"
#include "harness/store/bisection.h"
#include "harness/store/store.h"
#include "reports/comparison.h"
#include "reports/report.h"

namespace reports {

struct CaseView {
  harness::CaseRecord record;
  harness::RunRecord run;
  std::optional<harness::Case> the_case;  // absent when its JSON cannot be read
  std::string unreadable;                 // why, then
  // Of the same case in earlier runs, newest first, where it was decided (harness::Earlier).
  std::vector<harness::Earlier> history;
  // Where there is none: the newest earlier case of this name, which was run with something else.
  std::optional<harness::Earlier> namesake;
  bool in_brief = false;  // one of many that were not decided: told by its rows alone

  [[nodiscard]] const harness::Digest& digest() const { return record.digest; }
  [[nodiscard]] harness::Outcome outcome()
      const;  // SKIP when skipped, INCONCLUSIVE when never judged
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] std::string planted() const;   // name of the planted fault, "" for none
  [[nodiscard]] bool nothing_planted() const;  // false also where it cannot be read
  [[nodiscard]] bool expects() const;          // the scenario says what must be found
};

struct DecidedNight {
  std::string name;
  std::string decision;
  std::vector<harness::RunRecord> runs;
  std::vector<harness::CaseRecord> cases;  // each cell once
};

// A nightly run and what came before it.
struct NightBefore {
  harness::RunRecord run;
  std::string
      name;  // "shard 1/2, budget 3h": what tells it from the others of the night, "" where it is the only one
  EarlierNights earlier;
  Comparison comparison;  // with earlier.previous, where there is one
};

struct ReportView {
  ReportRequest request;        // its runs are those that count
  std::vector<CaseView> cases;  // of all runs, oldest first, in the order of the runs
  std::string decision;
  std::vector<harness::Outcome>
      outcomes;  // that count for it: of a search only the one of the whole
  std::vector<harness::CaseRecord> trials;            // of all bisections
  std::vector<harness::Bisection> bisections;         // point into `trials`
  std::vector<harness::RecordedDiagnosis> diagnoses;  // their experiments are not among `cases`
  std::vector<DecidedNight>
      nights;  // of a range with several, oldest first, the last one is what this report is about
  std::vector<NightBefore> nightly;  // of each shard and plan, the newest run
  std::size_t unasked = 0;           // cases that passed without some of their checks
};

// Throws: nsa::Error from the store.
[[nodiscard]] ReportView make_view(const harness::Store& store, const ReportRequest& request);

}  // namespace reports
