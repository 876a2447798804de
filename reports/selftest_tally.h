// How well planted faults were found: rates over the cases of a self-test, from their rows. What a fault's file expects is
// compared with what was told; nothing is judged again.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace reports {

// Of cases that plant a fault and were run.
struct FaultTally {
  int faults = 0;
  int detected = 0;   // some finding was given as a cause
  int preferred = 0;  // and the first cause has the first code that the file expects
  int placed = 0;     // and a cause has one of the codes and the site that the file expects
  std::vector<double> seconds;  // from the start of the case to its verdict
};

struct Missed {
  std::string label;
  std::string wanted;
  std::string told;
};

struct SelftestTally {
  std::map<std::string, FaultTally> by_code;  // by the first code that is expected
  FaultTally all;
  int healthy = 0;             // cases without a fault that were judged
  int alarms = 0;              // of them: those that failed
  int undecided = 0;           // of them: those that were not decided
  int idle = 0;                // faults that were planted and changed nothing; not among `faults`
  int left_out = 0;            // skipped
  std::vector<Missed> missed;  // faults without a right cause at the right place, and false alarms
};

// Was the run a self-test?
[[nodiscard]] bool is_selftest(const harness::RunRecord& run);

[[nodiscard]] SelftestTally selftest_tally(std::span<const harness::CaseRecord> cases);

struct Share {
  double low = 0.0;
  double high = 1.0;
};
// The 95 % score interval of a share (Wilson, 1927). REQUIRES: 0 <= some <= all. Nothing seen: 0 to 1.
[[nodiscard]] Share wilson(int some, int all);

// "76 of 78 (97.4 %, 91.1 to 99.3)"
[[nodiscard]] std::string rate_text(int some, int all);

// Lines for a terminal, the last one with a newline.
[[nodiscard]] std::string selftest_lines(const SelftestTally& tally);

// The member "selftest" of the object that --json prints.
[[nodiscard]] nlohmann::json selftest_json(const SelftestTally& tally);

}  // namespace reports
