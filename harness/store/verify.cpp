#include "harness/store/verify.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/run/record/run_folder.h"
#include "harness/scenario/case.h"
#include "harness/store/experiments.h"
#include "harness/store/rebuild.h"
#include "harness/store/run_files.h"
#include "harness/store/verdict_log.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/hash.h"
#include "nsa/base/strict_json.h"
#include "nsa/base/temporary_folder.h"

namespace harness {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// All that both sides know of the run. Its number and where its folder is are the database's own.
json told(const RunRecord& run) {
  const Provenance& from = run.provenance;
  return {{"name", run.name},
          {"started_ms", run.started_ms},
          {"ended_ms", run.ended_ms},
          {"exit_code", run.exit_code},
          {"complete", run.complete},
          {"commit", from.commit},
          {"dirty", from.dirty},
          {"diff_hash", from.diff_hash},
          {"source_hash", from.source_hash},
          {"binary_hash", from.binary_hash},
          {"argv", from.argv},
          {"machine", from.machine},
          {"environment", from.environment},
          {"command", from.command}};
}

json told(const Digest& digest) {
  json object = json::parse(digest_text(digest));
  json metrics = json::object();
  for (const auto& [name, value] : digest.metrics) metrics[name] = Real(value);
  object["metrics"] = std::move(metrics);
  return object;
}

json told(const CaseRecord& record) {
  json object = {{"label", record.label},
                 {"scenario", record.scenario},
                 {"case_id", record.case_id},
                 {"case_json", record.case_json},
                 {"skip_reason", record.skip_reason},
                 {"folder", record.folder},
                 {"judgements", record.judgements},
                 {"events", record.events_hash.value_or("")},
                 {"digest", told(record.digest)},
                 {"outcome", nullptr}};
  if (record.judgement) {
    object["outcome"] = name_of(record.judgement->outcome);
    object["reason"] = record.judgement->reason;
    object["verdicts"] = record.judgement->verdicts;
    object["findings"] = record.judgement->findings;
  }
  return object;
}

std::string value_at(const json& object, const json::json_pointer& at) {
  if (!object.contains(at)) return "nothing";
  return nsa::shortened(object.at(at).dump(-1, ' ', false, json::error_handler_t::replace));
}

// The first place where they differ.
void compare(const std::string& of,
             const json& database,
             const json& folder,
             std::vector<std::string>& wrong) {
  const json differences = json::diff(folder, database);
  if (differences.empty()) return;
  const auto name = differences.front().at("path").get<std::string>();
  const json::json_pointer at(name);
  const std::size_t more = differences.size() - 1;
  wrong.push_back(of + ": " + name.substr(1) + ": the database says " + value_at(database, at) +
                  ", the folder " + value_at(folder, at) +
                  (more > 0 ? " (and " + std::to_string(more) + " more places)" : ""));
}

// Whether the files of the ranks were dropped on purpose: of a case that passed when it ran, unless --keep, and by `db prune`.
bool were_dropped(const RunRecord& run, const CaseRecord& record) {
  std::error_code error;
  if (fs::exists(run.folder + "/" + kThinnedFile, error)) return true;
  if (!run.option(kKeepOption).empty()) return false;
  const std::vector<LoggedJudgement> judgements = read_verdict_log(run, record);
  const bool passed =
      !judgements.empty() && judgements.front().judged.judgement.outcome == Outcome::pass;
  return passed || is_experiment(record);
}

void verify_files(const RunRecord& run,
                  const CaseRecord& record,
                  const std::string& folder,
                  Verified& verified) {
  const bool dropped = were_dropped(run, record);
  for (const FileRow& file : record.digest.files) {
    const std::string path = folder + "/" + file.path;
    std::error_code error;
    if (!fs::exists(path, error)) {
      if (!dropped) verified.wrong.push_back(path + ": not there, and nobody dropped it");
      ++verified.files_gone;
    } else if (const std::string found = nsa::hash_file(path); found != file.hash) {
      verified.wrong.push_back(path + ": found hash " + found + ", recorded was " + file.hash);
    } else {
      ++verified.files;
    }
  }
}

// Without the training text, which was copied into the run's folder when the case began.
std::string case_without_text(const std::string& text, const std::string& where) {
  Case the_case = case_from_json(text, where);
  the_case.scenario.training.data.text.clear();
  return case_to_json(the_case);
}

// case.json, from which the ranks read what to do.
void verify_case_file(const CaseRecord& record,
                      const std::string& folder,
                      std::vector<std::string>& wrong) {
  constexpr std::int64_t kMostBytes = std::int64_t{16} << 20;
  const std::string path = folder + "/" + kCaseFile;
  try {
    const std::string found = case_without_text(nsa::read_file(path, kMostBytes), path);
    if (found == case_without_text(record.case_json, path)) return;
    wrong.push_back(path + ": found another case than the one that was planned");
  } catch (const std::exception& why) {
    const std::string what = why.what();
    wrong.push_back(what.find(path) == std::string::npos ? path + ": " + what : what);
  }
}

}  // namespace

Verified verify_run(const Store& store, const RunRecord& run) {
  if (run.pruned_ms > 0) throw nsa::Error(run.folder + ": dropped (nsa-harness db prune)");
  if (!fs::is_directory(run.folder)) throw nsa::Error(run.folder + ": not there");
  const nsa::TemporaryFolder scratch;
  const auto again = Store::open(scratch / "again.db", true);
  Verified verified;
  try {
    (void)rebuild_run(run.folder, *again);
  } catch (const nsa::Error& why) {
    verified.wrong.emplace_back(why.what());
    return verified;
  }
  const RunRecord rebuilt = again->last_run().value();
  compare("run " + run.name, told(run), told(rebuilt), verified.wrong);
  std::map<int, CaseRecord> of_folder;  // by position
  for (CaseRecord& record : again->cases(rebuilt.id)) {
    of_folder.emplace(record.position, std::move(record));
  }
  for (const CaseRecord& record : store.cases(run.id)) {
    const auto found = of_folder.extract(record.position);
    if (found.empty()) {
      verified.wrong.push_back("case " + record.label + ": the folder does not have it");
      continue;
    }
    compare("case " + record.label, told(record), told(found.mapped()), verified.wrong);
    const std::string folder = case_folder(run.folder, record.folder);
    if (record.digest.recorded) verify_case_file(record, folder, verified.wrong);
    verify_files(run, record, folder, verified);
    ++verified.cases;
  }
  for (const auto& [position, record] : of_folder) {
    verified.wrong.push_back("case " + record.label + ": the database does not have it");
  }
  return verified;
}

}  // namespace harness
