// The judgements of a case in its folder: verdicts.jsonl, one judgement a line, only ever added to, each line sealed
// (sealed.h) and bound to what it is of: run, case and the events that were judged. From these the database has its verdicts
// again when it was lost. Lines of older versions are bound to nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace harness {

inline constexpr const char* kVerdictsFile = "verdicts.jsonl";

// What a judgement says: outcome, reason, verdicts, findings. NaN survives. Reading throws what nlohmann::json does, or nsa::Error.
[[nodiscard]] nlohmann::json judgement_json(const Judgement& judgement);
[[nodiscard]] Judgement judgement_from(const nlohmann::json& says);

struct CaseTimes {
  std::int64_t started_ms = 0;  // Unix time, 0: it never began
  double seconds = 0.0;
};

struct LoggedJudgement {
  CaseTimes times;
  StoredJudgement judged;
};

// Through to the disk when it returns. What a killed process left of a line is taken away first. Throws: nsa::Error.
void log_judgement(const RunRecord& run,
                   const CaseRecord& record,
                   const LoggedJudgement& judgement);

// Oldest first; none where there is no such file. Throws: nsa::Error with file:line: malformed; NotAsRecorded: altered, or of
// another run or case.
[[nodiscard]] std::vector<LoggedJudgement> read_verdict_log(const RunRecord& run,
                                                            const CaseRecord& record);

// Throws: NotAsRecorded, naming the file and the line, where one of them judged other events than these.
void refuse_other_events(const RunRecord& run,
                         const CaseRecord& record,
                         const std::vector<LoggedJudgement>& judgements,
                         const std::string& events_hash);

}  // namespace harness
