#include "harness/store/case_evidence.h"

#include <filesystem>
#include <map>

#include "harness/run/record/run_folder.h"
#include "harness/store/run_files.h"
#include "harness/store/verdict_log.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"

namespace harness {

RecordedCase read_recorded(const RunRecord& run, const CaseRecord& record) {
  RecordedCase recorded;
  recorded.evidence.the_case = case_from_json(record.case_json, "case " + record.label);
  recorded.evidence.folder = case_folder(run.folder, record.folder);
  const std::string& folder = recorded.evidence.folder;
  std::int64_t last_ms = 0;
  const LogRead read = read_event_log(folder, [&](const Event& event) {
    recorded.evidence.add(event);
    last_ms = event.t_ms;
  });
  recorded.events_hash = read.hash;
  if (read.state == LogState::altered) {
    throw nsa::NotAsRecorded(folder + "/" + kEventsFile +
                             ": not what its hash file names: altered");
  }
  if (record.events_hash && *record.events_hash != read.hash) {
    throw nsa::NotAsRecorded(folder + "/" + kEventsFile + ": found events " + read.hash +
                             ", but the judgement in the database is of " +
                             (record.events_hash->empty() ? "none" : *record.events_hash));
  }
  refuse_other_events(run, record, read_verdict_log(run, record), read.hash);
  recorded.seconds = static_cast<double>(last_ms) / 1000.0;
  return recorded;
}

std::vector<std::string> files_gone(const Evidence& evidence) {
  std::map<std::string, std::int64_t> bytes;  // the newest row of a path tells its size
  for (const auto& from : evidence.artefacts) bytes[from.row.path] = from.row.bytes;
  std::vector<std::string> gone;
  for (const auto& [path, wanted] : bytes) {
    std::error_code error;
    const auto found = std::filesystem::file_size(evidence.folder + "/" + path, error);
    if (error || (wanted > 0 && static_cast<std::int64_t>(found) != wanted)) gone.push_back(path);
  }
  return gone;
}

}  // namespace harness
