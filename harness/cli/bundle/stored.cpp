#include "harness/cli/bundle/stored.h"

#include <algorithm>
#include <filesystem>

#include "harness/cli/explain/case.h"
#include "harness/cli/machine/environment.h"
#include "harness/judge/codes/codes.h"
#include "harness/run/record/run_folder.h"
#include "harness/store/run_files.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/hash.h"

namespace harness::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongestText = std::int64_t{64} << 20;  // no longer one is kept
constexpr std::int64_t kLongestCase = std::int64_t{1} << 20;

// The text that was kept when the case began, also where the run's folder was moved.
std::string kept_text(const RunRecord& run, const CaseRecord& record) {
  const std::string gone = "case " + record.label + ": the text that it trained on was not kept" +
                           (run.pruned_ms > 0 ? " (nsa-harness db prune)" : "") +
                           ": run the case again";
  const std::string path = case_folder(run.folder, record.folder) + "/" + kCaseFile;
  std::error_code none;
  if (!fs::is_regular_file(path, none)) throw nsa::Error(gone);
  const Case ran = case_from_json(nsa::read_file(path, kLongestCase), path);
  const std::vector<std::string>& files = ran.scenario.training.data.text;
  if (files.size() != 1) throw nsa::Error(gone);
  const fs::path named = files.front();
  for (const fs::path& at : {fs::path(run.folder) / "texts" / named.filename(), named}) {
    if (!fs::is_regular_file(at, none)) continue;
    std::string text = nsa::read_file(at, kLongestText);
    if (nsa::hash_hex(text) == at.stem()) return text;
  }
  throw nsa::Error(gone);
}

// The one call in which a NaN was born, where a rank kept it.
std::string kept_operator(const RunRecord& run, const CaseRecord& record) {
  std::error_code none;
  std::vector<std::string> found;
  const fs::recursive_directory_iterator files(case_folder(run.folder, record.folder), none);
  for (const fs::directory_entry& entry : files) {
    const bool is_it = entry.path().filename() == "nan_operator.safetensors";
    if (is_it && entry.is_regular_file(none)) found.push_back(entry.path().string());
  }
  if (found.empty()) return "";
  const std::string& first = *std::min_element(found.begin(), found.end());
  return fs::file_size(first, none) > kMostOperatorBytes
             ? ""
             : nsa::read_file(first, static_cast<std::int64_t>(kMostOperatorBytes));
}

// What its scenario expects or knows does not count: a failure that was expected is one.
FailingCase failing_case(const CaseRecord& record) {
  const std::string label = "case " + record.label;
  if (!record.judgement) {
    const std::string why =
        record.skip_reason.empty() ? "never judged" : "skipped (" + record.skip_reason + ")";
    throw nsa::Error(label + ": it was " + why + ", wanted one that failed");
  }
  const Judgement& judgement = *record.judgement;
  const bool undecided = judgement.outcome == Outcome::error ||
                         judgement.outcome == Outcome::inconclusive ||
                         judgement.outcome == Outcome::skip;
  FailingCase failing;
  failing.causes = causes_of(judgement);
  if (undecided || failing.causes.empty()) {
    throw nsa::Error(label + ": found " + name_of(judgement.outcome) + " (" + judgement.reason +
                     "), wanted a failure with a cause that a replay can find again");
  }
  const Code* code = find_code(failing.causes.front().code);
  failing.outcome = code == nullptr ? Outcome::fail : code->outcome;
  const Case ran = case_from_json(record.case_json, label);
  if (ran.scenario.is_command()) {
    throw nsa::Error(label + ": it is a command of your own, whose files are not known here: " +
                     "wanted a case that nsa-harness runs itself");
  }
  failing.the_case = bare_case(ran);
  return failing;
}

Pairs asked_of(const Pairs& command) {
  Pairs asked;
  for (const auto& [key, value] : command) {
    if (key == "set" || key == "seed" || key == "profile") asked.emplace_back(key, value);
  }
  return asked;
}

}  // namespace

Pairs versions_of(const Provenance& provenance) {
  Pairs versions;
  if (!provenance.commit.empty()) {
    versions.emplace_back("commit",
                          provenance.commit + (provenance.dirty ? " with changes" : "") +
                              (provenance.diff_hash.empty() ? "" : " " + provenance.diff_hash));
  }
  versions.emplace_back("sources", provenance.source_hash);
  versions.emplace_back("binary", provenance.binary_hash);
  versions.insert(versions.end(), provenance.machine.begin(), provenance.machine.end());
  return versions;
}

Bundle bundle_of(const RunRecord& run, const CaseRecord& record) {
  Bundle bundle;
  bundle.failing = failing_case(record);
  if (reads_text(bundle.failing.the_case)) bundle.text = kept_text(run, record);
  bundle.asked = asked_of(run.provenance.command);
  bundle.versions = versions_of(run.provenance);
  // Once more through the list of what is allowed: an older version's may have been longer.
  bundle.environment = steering_variables(allowed_variables(run.provenance.environment));
  bundle.findings = case_text(record);
  bundle.operator_call = kept_operator(run, record);
  return bundle;
}

}  // namespace harness::cli
