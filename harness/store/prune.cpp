#include "harness/store/prune.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>

#include "harness/store/run_files.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongestRunMs = std::int64_t{7} * 24 * 3'600'000;  // longer than any night

// In a folder below the case's, where ranks write: what lies in the case's folder itself is the record. Also through symbolic
// links: where the file really is.
bool is_a_ranks(const fs::path& file, const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(file, error);
  const fs::path root = error ? fs::path() : fs::weakly_canonical(folder, error);
  if (error) return false;
  const fs::path inside = real.lexically_relative(root);
  return std::distance(inside.begin(), inside.end()) > 1 && *inside.begin() != "..";
}

std::int64_t bytes_in(const fs::path& folder) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored) && !at->is_symlink(ignored)) {
      bytes += static_cast<std::int64_t>(at->file_size(ignored));
    }
  }
  return bytes;
}

// Why nothing of the run may go, "" where it may.
std::string why_kept(const RunRecord& run,
                     const std::vector<CaseRecord>& cases,
                     const PruneRule& rule) {
  if (run.ended_ms == 0 && run.started_ms > rule.now_ms - kLongestRunMs) {
    return "it may still be running";
  }
  const auto unjudged = std::count_if(cases.begin(), cases.end(), [](const CaseRecord& record) {
    return record.skip_reason.empty() && record.started_ms > 0 && !record.judgement;
  });
  if (unjudged == 0) return "";
  return std::to_string(unjudged) +
         " of its cases began and were never judged: nsa-harness judge " + run.name + " first";
}

// A path out of a database is trusted only so far: the folder must say itself that it is this run's.
std::string why_not_its_folder(const RunRecord& run) {
  std::error_code error;
  if (fs::is_symlink(run.folder, error)) return "its folder is a symbolic link";
  try {
    return read_run_file(run.folder).run.name == run.name ? "" : "its folder is another run's";
  } catch (const nsa::Error& why) {
    return why.what();
  }
}

class Pruning {
 public:
  Pruning(Store& store, const PruneRule& rule) : store_(store), rule_(rule) {}

  Pruned run() {
    std::vector<RunRecord> runs = store_.runs(std::numeric_limits<std::int64_t>::min(),
                                              std::numeric_limits<std::int64_t>::max());
    std::reverse(runs.begin(), runs.end());  // the newest first
    int newer = 0;
    for (const RunRecord& run : runs) {
      if (run.pruned_ms > 0 || (!rule_.verb.empty() && run.option("verb") != rule_.verb)) continue;
      // Of a run that came from another machine's database there is nothing here.
      std::error_code error;
      const bool is_here = fs::exists(run.folder, error);
      const bool has_files = !is_here || newer++ < rule_.runs_with_files;
      if (run.started_ms < rule_.before_ms) {
        drop(run);
      } else if (!has_files) {
        thin(run);
      }
    }
    return std::move(pruned_);
  }

 private:
  bool may_go(const RunRecord& run, const std::vector<CaseRecord>& cases) {
    const std::string why = why_kept(run, cases, rule_);
    if (!why.empty()) pruned_.left.push_back(run.name + ": " + why);
    return why.empty();
  }

  void drop(const RunRecord& run) {
    if (!may_go(run, store_.cases(run.id))) return;
    std::error_code error;
    if (fs::exists(run.folder, error)) {
      const std::string why = why_not_its_folder(run);
      if (!why.empty()) {
        pruned_.left.push_back(run.name + ": " + why);
        return;
      }
      const std::int64_t bytes = bytes_in(run.folder);
      fs::remove_all(run.folder, error);
      if (error) {
        pruned_.left.push_back(run.name + ": " + run.folder + ": " + error.message());
        return;
      }
      pruned_.freed_bytes += bytes;
    }
    store_.mark_pruned(run.id, rule_.now_ms);
    pruned_.dropped.push_back(run.name);
  }

  void thin(const RunRecord& run) {
    const std::vector<CaseRecord> cases = store_.cases(run.id);
    if (!may_go(run, cases)) return;
    std::int64_t freed = 0;
    for (const CaseRecord& record : cases) {
      try {
        freed += remove_files(case_folder(run.folder, record.folder), record.digest.files);
      } catch (const nsa::Error& why) {
        pruned_.left.push_back(run.name + ": " + why.what());
      }
    }
    if (freed > 0) pruned_.thinned.push_back(run.name);
    pruned_.freed_bytes += freed;
    note_thinned(run);
  }

  // Afterwards: on a full disk there is room only now. Who verifies the run then knows that nobody else took them.
  void note_thinned(const RunRecord& run) {
    std::error_code error;
    const std::string note = run.folder + "/" + kThinnedFile;
    if (fs::exists(note, error) || !fs::is_directory(run.folder, error)) return;
    try {
      nsa::write_durably(note, "nsa-harness db prune dropped the files of the ranks\n");
    } catch (const nsa::Error& why) {
      pruned_.left.push_back(run.name + ": " + why.what());
    }
  }

  Store& store_;
  const PruneRule& rule_;
  Pruned pruned_;
};

}  // namespace

std::int64_t remove_files(const std::string& case_folder, std::span<const FileRow> files) {
  std::int64_t freed = 0;
  for (const FileRow& row : files) {
    const fs::path file = fs::path(case_folder) / row.path;
    std::error_code error;
    if (!is_a_ranks(file, case_folder) || !fs::is_regular_file(file, error)) continue;
    const auto bytes = fs::file_size(file, error);
    if (fs::remove(file, error)) freed += static_cast<std::int64_t>(bytes);
  }
  return freed;
}

Pruned prune_runs(Store& store, const PruneRule& rule) {
  return Pruning(store, rule).run();
}

}  // namespace harness
