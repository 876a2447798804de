// What was recorded of a case, read back from its folder to be judged again.
#pragma once

#include <string>
#include <vector>

#include "harness/evidence/evidence.h"
#include "harness/store/store.h"

namespace harness {

struct RecordedCase {
  Evidence evidence;
  double seconds = 0.0;     // until the last event
  std::string events_hash;  // of what was read (LogRead)
};

// Throws: nsa::Error naming the file: no events, a folder outside of the run's; NotAsRecorded: events that were altered, or others
// than those that were judged, as the database or verdicts.jsonl has it. What a killed controller left is read as far as it goes.
[[nodiscard]] RecordedCase read_recorded(const RunRecord& run, const CaseRecord& record);

// The files that ranks wrote and that are not there any more, or not of the size they had: by path, each once.
[[nodiscard]] std::vector<std::string> files_gone(const Evidence& evidence);

}  // namespace harness
