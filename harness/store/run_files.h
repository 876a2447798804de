// What a run's folder says of the run beside its cases' events: run.json, what was planned, written before anything runs, and
// end.json, how it ended. Both are written whole, through to the disk. Readers take a folder for a stranger's.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace harness {

inline constexpr const char* kRunFile = "run.json";
inline constexpr const char* kEndFile = "end.json";
inline constexpr const char* kThinnedFile = "thinned.txt";  // there where db prune dropped files
inline constexpr const char* kKeepOption = "keep";          // of the command: of passing cases too

// Throws: nsa::Error.
void write_run_file(const RunRecord& run, std::span<const CaseRecord> planned);

struct PlannedRun {
  RunRecord run;
  std::vector<CaseRecord> cases;
  bool binds =
      false;  // its end and its judgements say what they are of; runs of older versions do not
};
// Throws: nsa::Error naming the file: missing, malformed, too large, a case's folder outside of the run's.
[[nodiscard]] PlannedRun read_run_file(const std::string& folder);

// Of a run that ended: exit_code, complete, ended_ms, and what it is of: the run's name and the hash of its run.json.
void write_end_file(const RunRecord& run);
// Takes the three over where there is an end.json. Throws: nsa::Error naming the file: malformed; NotAsRecorded: altered, of
// another run, or of a run that was planned otherwise.
void read_end_file(PlannedRun& planned);

// `folder` joined to the run's folder. Throws: nsa::Error if it would lead out of it, also by a link.
[[nodiscard]] std::string case_folder(const std::string& run_folder, const std::string& folder);

}  // namespace harness
