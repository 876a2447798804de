// What is deleted, and when. Nothing goes before its verdict is stored, and rows of the database never go:
//  - a case that passed keeps no files of its ranks (tensors) once it is judged, unless --keep;
//  - `db prune` drops the folders of runs older than it is told, and the ranks' files of all runs but the newest few;
//  - a run with a case that began and was never judged keeps everything, and so does one that may still be running.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace harness {

// Removes these files of a case; events, verdicts, logs and case.json are none of them. Gives the bytes that were freed. Paths
// come from workers: one that leads out of the case's folder, also through a symbolic link, is left alone.
std::int64_t remove_files(const std::string& case_folder, std::span<const FileRow> files);

struct PruneRule {
  std::int64_t now_ms = 0;
  std::int64_t before_ms = 0;  // folders of runs that began before this are dropped
  int runs_with_files = 0;     // so many of the newest runs keep the files of their ranks
  std::string verb;            // only runs that this verb began: "nightly"; "": all
};

struct Pruned {
  std::vector<std::string> dropped;  // names of runs whose folder is gone
  std::vector<std::string> thinned;  // names of runs that lost files of their ranks
  std::vector<std::string> left;     // "NAME: why" of what the rule would have taken
  std::int64_t freed_bytes = 0;
};

// Throws: nsa::Error from the store.
[[nodiscard]] Pruned prune_runs(Store& store, const PruneRule& rule);

}  // namespace harness
