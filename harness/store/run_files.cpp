#include "harness/store/run_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/store/sealed.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/hash.h"
#include "nsa/base/strict_json.h"

namespace harness {
namespace {

using nlohmann::json;

constexpr nsa::JsonLimits kRunLimits = {std::size_t{256} << 20, 16};  // 10,000 cases of 20 KiB
constexpr nsa::JsonLimits kEndLimits = {std::size_t{64} << 10, 8};

json run_json(const RunRecord& run, std::span<const CaseRecord> planned) {
  const Provenance& from = run.provenance;
  json document = {{"name", run.name},
                   {"number", run.id},
                   {"binds", true},
                   {"started_ms", run.started_ms},
                   {"commit", from.commit},
                   {"dirty", from.dirty},
                   {"diff_hash", from.diff_hash},
                   {"source_hash", from.source_hash},
                   {"binary_hash", from.binary_hash},
                   {"argv", from.argv},
                   {"machine", from.machine},
                   {"environment", from.environment},
                   {"command", from.command},
                   {"cases", json::array()}};
  for (const CaseRecord& record : planned) {
    document["cases"].push_back({{"position", record.position},
                                 {"scenario", record.scenario},
                                 {"label", record.label},
                                 {"case_id", record.case_id},
                                 {"case_json", record.case_json},
                                 {"skip_reason", record.skip_reason},
                                 {"folder", record.folder}});
  }
  return document;
}

void refuse_other_end(const json& end, const RunRecord& run, const std::string& path) {
  const std::string name = end.value("run", "no run");
  if (name != run.name) {
    throw nsa::NotAsRecorded(path + ": the end of another run: found " + nsa::shortened(name) +
                             ", wanted " + run.name);
  }
  const std::string found = nsa::hash_file(run.folder + "/" + kRunFile);
  const std::string wanted = end.value("plan", "");
  if (found == wanted) return;
  throw nsa::NotAsRecorded(run.folder + "/" + kRunFile + ": altered: found hash " + found +
                           ", wanted " + wanted + ", which " + kEndFile + " names");
}

constexpr std::int64_t kMostCases = 1'000'000;

RunRecord read_run(const json& document, const std::string& folder) {
  RunRecord run;
  run.folder = folder;
  document.at("name").get_to(run.name);
  if (document.contains("number")) {  // files of older versions have none
    run.id = nsa::integer_at(document, "number", 0, kLatestMs);
  }
  run.started_ms = nsa::integer_at(document, "started_ms", 0, kLatestMs);
  document.at("commit").get_to(run.provenance.commit);
  document.at("dirty").get_to(run.provenance.dirty);
  document.at("diff_hash").get_to(run.provenance.diff_hash);
  document.at("source_hash").get_to(run.provenance.source_hash);
  document.at("binary_hash").get_to(run.provenance.binary_hash);
  document.at("argv").get_to(run.provenance.argv);
  document.at("machine").get_to(run.provenance.machine);
  document.at("environment").get_to(run.provenance.environment);
  run.provenance.command = document.value("command", Pairs{});
  return run;
}

CaseRecord read_case(const json& document) {
  CaseRecord record;
  record.position = static_cast<int>(nsa::integer_at(document, "position", 0, kMostCases));
  document.at("scenario").get_to(record.scenario);
  document.at("label").get_to(record.label);
  document.at("case_id").get_to(record.case_id);
  document.at("case_json").get_to(record.case_json);
  document.at("skip_reason").get_to(record.skip_reason);
  document.at("folder").get_to(record.folder);
  return record;
}

}  // namespace

void write_run_file(const RunRecord& run, std::span<const CaseRecord> planned) {
  nsa::write_durably(
      run.folder + "/" + kRunFile,
      run_json(run, planned).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

PlannedRun read_run_file(const std::string& folder) {
  const std::string path = folder + "/" + kRunFile;
  const std::string text = nsa::read_file(path, static_cast<std::int64_t>(kRunLimits.bytes));
  try {
    const json document = nsa::parse_json_object(text, kRunLimits, path);
    PlannedRun planned;
    planned.run = read_run(document, folder);
    planned.binds = document.value("binds", false);
    for (const json& item : document.at("cases")) {
      planned.cases.push_back(read_case(item));
      (void)case_folder(folder, planned.cases.back().folder);
    }
    return planned;
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw nsa::Error(what.starts_with(path) ? what : path + ": " + what);
  }
}

void write_end_file(const RunRecord& run) {
  const json end = {{"run", run.name},
                    {"plan", nsa::hash_file(run.folder + "/" + kRunFile)},
                    {"exit_code", run.exit_code},
                    {"complete", run.complete},
                    {"ended_ms", run.ended_ms}};
  nsa::write_durably(run.folder + "/" + kEndFile, sealed_line(end, "") + "\n");
}

void read_end_file(PlannedRun& planned) {
  RunRecord& run = planned.run;
  const std::string path = run.folder + "/" + kEndFile;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  std::string text = nsa::read_file(path, static_cast<std::int64_t>(kEndLimits.bytes));
  if (!text.empty() && text.back() == '\n') text.pop_back();
  std::string hash;
  const json end = open_sealed_line(text, kEndLimits, path, hash);
  try {
    if (planned.binds || end.contains("plan")) refuse_other_end(end, run, path);
    constexpr int kLargestCode = 255;
    run.exit_code = static_cast<int>(nsa::integer_at(end, "exit_code", 0, kLargestCode));
    end.at("complete").get_to(run.complete);
    run.ended_ms = nsa::integer_at(end, "ended_ms", 0, kLatestMs);
  } catch (const nsa::NotAsRecorded&) {
    throw;
  } catch (const std::exception& wrong) {  // of another type, or out of its range
    throw nsa::Error(path + ": " + wrong.what());
  }
}

std::string case_folder(const std::string& run_folder, const std::string& folder) {
  const std::filesystem::path path = folder;
  const bool has_nul = folder.find('\0') != std::string::npos;
  const bool inside =
      !folder.empty() && path.is_relative() && !has_nul &&
      std::none_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
  if (!inside) {
    throw nsa::Error("a case's folder: found " +
                     (has_nul ? "a NUL byte" : "\"" + nsa::shortened(folder) + "\"") +
                     ", wanted one inside of the run's folder");
  }
  std::string whole = run_folder + "/" + folder;
  std::error_code error;
  if (std::filesystem::is_symlink(whole, error)) {
    throw nsa::NotAsRecorded(whole + ": found a symbolic link, wanted the folder of a case");
  }
  return whole;
}

}  // namespace harness
