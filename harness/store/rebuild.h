// The database from the runs' folders: run.json says what was planned, the events of each case what was recorded, verdicts.jsonl
// how it was judged, end.json how the run ended. A folder of an older version has no verdicts and no end.
#pragma once

#include <cstdint>
#include <string>

#include "harness/store/store.h"

namespace harness {

// Adds the run of this folder to the store and gives its row: all of it or, with an nsa::Error that names every file that was
// refused, nothing, so that it can be tried again. Refused are: a missing or malformed run.json, a run that the store has already;
// with NotAsRecorded a file that was altered after it was closed, a judgement of another run, of another case or of other events,
// and judgements that the exit code of end.json does not follow from.
std::int64_t rebuild_run(const std::string& run_folder, Store& store);

}  // namespace harness
