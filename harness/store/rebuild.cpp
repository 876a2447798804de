#include "harness/store/rebuild.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/core/run_folder.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"

namespace harness {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxRunFileBytes = std::int64_t{256} << 20;  // ten thousand cases of 20 KiB

json to_json_text(const RunRecord& run, std::span<const CaseRecord> planned) {
  const Provenance& from = run.provenance;
  json document = {{"name", run.name},
                   {"started_ms", run.started_ms},
                   {"commit", from.commit},
                   {"dirty", from.dirty},
                   {"diff_hash", from.diff_hash},
                   {"source_hash", from.source_hash},
                   {"binary_hash", from.binary_hash},
                   {"argv", from.argv},
                   {"machine", from.machine},
                   {"environment", from.environment},
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

RunRecord read_run(const json& document, const std::string& folder) {
  RunRecord run;
  run.folder = folder;
  document.at("name").get_to(run.name);
  document.at("started_ms").get_to(run.started_ms);
  document.at("commit").get_to(run.provenance.commit);
  document.at("dirty").get_to(run.provenance.dirty);
  document.at("diff_hash").get_to(run.provenance.diff_hash);
  document.at("source_hash").get_to(run.provenance.source_hash);
  document.at("binary_hash").get_to(run.provenance.binary_hash);
  document.at("argv").get_to(run.provenance.argv);
  document.at("machine").get_to(run.provenance.machine);
  document.at("environment").get_to(run.provenance.environment);
  return run;
}

CaseRecord read_case(const json& document) {
  CaseRecord record;
  document.at("position").get_to(record.position);
  document.at("scenario").get_to(record.scenario);
  document.at("label").get_to(record.label);
  document.at("case_id").get_to(record.case_id);
  document.at("case_json").get_to(record.case_json);
  document.at("skip_reason").get_to(record.skip_reason);
  document.at("folder").get_to(record.folder);
  return record;
}

void rebuild_events(const std::string& case_folder, std::int64_t row, Store& store) {
  std::int64_t last_ms = 0;
  const LogState state = read_event_log(case_folder, [&](const Event& event) {
    check_row(event);
    store.add_event(row, event);
    last_ms = event.t_ms;
  });
  if (state == LogState::altered) {
    throw nsa::Error(case_folder + "/" + kEventsFile + ": not what its hash file names: altered");
  }
  store.finish_case(row, static_cast<double>(last_ms) / 1000.0);
}

}  // namespace

void write_run_file(const RunRecord& run, std::span<const CaseRecord> planned) {
  const std::string path = run.folder + "/" + kRunFile;
  const std::string draft = path + ".part";
  std::ofstream file(draft, std::ios::binary | std::ios::trunc);
  file << to_json_text(run, planned).dump(1, ' ', false, json::error_handler_t::replace) << "\n";
  file.close();
  if (!file || std::rename(draft.c_str(), path.c_str()) != 0) {
    throw nsa::Error(nsa::system_error_text("write", path));
  }
}

std::int64_t rebuild_run(const std::string& run_folder, Store& store) {
  const std::string path = run_folder + "/" + kRunFile;
  RunRecord run;
  std::vector<CaseRecord> planned;
  try {
    const json document = json::parse(nsa::read_file(path, kMaxRunFileBytes));
    run = read_run(document, run_folder);
    for (const json& item : document.at("cases")) planned.push_back(read_case(item));
  } catch (const json::exception& error) {
    throw nsa::Error(path + ": " + error.what());
  }
  const std::int64_t run_row = store.begin_run(run);
  for (CaseRecord& record : planned) {
    record.run_id = run_row;
    const std::int64_t row = store.plan_case(record);
    const std::string folder = run_folder + "/" + record.folder;
    if (!std::filesystem::exists(folder + "/" + kEventsFile)) continue;
    store.begin_case(row, run.started_ms);  // when it really began is not in the folder
    rebuild_events(folder, row, store);
  }
  store.flush();
  return run_row;
}

}  // namespace harness
