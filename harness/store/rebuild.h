// The database from the runs' folders: events.jsonl of each attempt holds what was recorded, and run.json, written before
// anything runs, what was planned. Judgements are not in there: judging again gives the same ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "harness/store/store.h"

namespace harness {

inline constexpr const char* kRunFile = "run.json";

// Writes run.json into the run's folder, whole or not at all. Throws: nsa::Error.
void write_run_file(const RunRecord& run, std::span<const CaseRecord> planned);

// Adds the run of this folder to the store and gives its row. A case that never ran has no events. Throws: nsa::Error with
// the file: missing or malformed run.json, a log that was altered after it was closed, a run that the store has already.
std::int64_t rebuild_run(const std::string& run_folder, Store& store);

}  // namespace harness
