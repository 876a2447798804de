// The judgements of a case in its folder: verdicts.jsonl, one judgement a line, only ever added to, each line sealed
// (sealed.h). From these the database has its verdicts again when it was lost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace harness {

inline constexpr const char* kVerdictsFile = "verdicts.jsonl";

struct CaseTimes {
  std::int64_t started_ms = 0;  // Unix time, 0: it never began
  double seconds = 0.0;
};

struct LoggedJudgement {
  CaseTimes times;
  StoredJudgement judged;
};

// Through to the disk when it returns. What a killed process left of a line is taken away first. Throws: nsa::Error.
void log_judgement(const std::string& case_folder, const LoggedJudgement& judgement);

// Oldest first; none where there is no such file. Throws: nsa::Error with file:line: altered, malformed.
[[nodiscard]] std::vector<LoggedJudgement> read_verdict_log(const std::string& case_folder);

}  // namespace harness
