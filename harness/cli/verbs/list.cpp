#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include <CLI/CLI.hpp>

#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/scenario/exit_code.h"
#include "harness/scenario/overrides.h"
#include "harness/scenario/schema.h"
#include "harness/store/store.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"
#include "reports/range.h"

namespace harness::cli {
namespace {

using Json = nlohmann::json;

std::string text_at(const nsa::YamlNode& root, const std::string& path) {
  const nsa::YamlNode* node = nsa::find_yaml_path(root, path);
  return node != nullptr && node->kind == nsa::YamlNode::Kind::scalar ? node->scalar : "";
}

// Only what the file says of itself: listing must work without a worker.
Json scenario_entry(const std::string& path) {
  const nsa::YamlNode root = nsa::load_yaml(path);
  return {{"scenario", text_at(root, "scenario")},
          {"path", path},
          {"kind", text_at(root, "kind")},
          {"about", text_at(root, "about")},
          {"fault", text_at(root, "fault.name")},
          {"profiles", profiles_of(root)}};
}

Json everything() {
  const Paths paths = find_paths();
  Json all = {{"scenarios", Json::array()}, {"checks", Json::array()}, {"faults", Json::array()}};
  for (const std::string& file : scenario_files({paths.scenarios()})) {
    all["scenarios"].push_back(scenario_entry(file));
  }
  for (const auto& [name, about] : check_about())
    all["checks"].push_back({{"name", name}, {"about", about}});
  std::error_code error;
  if (!std::filesystem::exists(paths.manifest, error)) return all;
  const Manifest manifest = load_manifest(paths.manifest);
  for (const FaultInfo& fault : manifest.faults) {
    all["faults"].push_back({{"name", fault.name},
                             {"about", fault.about},
                             {"uses", fault.uses},
                             {"forms", fault.forms}});
  }
  all["kinds"] = manifest.kinds;
  all["seams"] = manifest.seams;
  return all;
}

void print_names(const std::string& title,
                 const Json& entries,
                 const char* name,
                 const char* about) {
  if (entries.empty()) return;
  std::size_t width = 0;
  for (const Json& entry : entries) width = std::max(width, entry[name].get<std::string>().size());
  std::cout << title << "\n";
  for (const Json& entry : entries) {
    std::string word = entry[name];
    word.resize(width, ' ');
    std::cout << "  " << word << "  " << entry[about].get<std::string>() << "\n";
  }
}

Json schema_json() {
  auto keys = Json::array();
  for (const SchemaKey& key : schema()) {
    keys.push_back({{"path", key.path},
                    {"type", key.type},
                    {"default", key.initial},
                    {"meaning", key.meaning}});
  }
  return keys;
}

struct ListArguments {
  bool schema = false;
  bool json = false;
  std::optional<std::string> database;  // "": the default one
};

Json run_entry(const Store& store, const RunRecord& run) {
  Json outcomes = Json::object();
  for (const auto& [outcome, count] : store.tally(run.id)) outcomes[name_of(outcome)] = count;
  return {{"number", run.id},
          {"run", run.name},
          {"started", reports::time_text(run.started_ms, 0) + " UTC"},
          {"exit", run.exit_code},
          {"complete", run.complete},
          {"folder", run.pruned_ms > 0 ? "" : run.folder},
          {"outcomes", std::move(outcomes)},
          {"argv", run.provenance.argv}};
}

std::string run_line(const Json& run) {
  std::vector<std::string> outcomes;
  for (const auto& [name, count] : run["outcomes"].items()) {
    outcomes.push_back(std::to_string(count.get<int>()) + " " + name);
  }
  const int code = run["exit"];
  return std::to_string(run["number"].get<std::int64_t>()) + "  " + run["run"].get<std::string>() +
         "  " + run["started"].get<std::string>() + "  " +
         (code < 0 ? "did not end" : "exit " + std::to_string(code)) + "  " + nsa::join(outcomes) +
         (run["folder"] == "" ? "  folder dropped" : "");
}

int list_runs(const ListArguments& arguments) {
  const auto store = Store::open_read_only(database_path(*arguments.database), &log_line);
  Json runs = Json::array();
  for (const RunRecord& run : store->runs(std::numeric_limits<std::int64_t>::min(),
                                          std::numeric_limits<std::int64_t>::max())) {
    runs.push_back(run_entry(*store, run));
    if (!arguments.json) std::cout << without_controls(run_line(runs.back())) << "\n";
  }
  if (arguments.json) std::cout << Json({{"runs", runs}}).dump() << "\n";
  if (runs.empty()) log_line("no run is stored yet");
  return runs.empty() ? kExitNothing : kExitPass;
}

int list(const ListArguments& arguments) {
  if (arguments.database) return list_runs(arguments);
  const bool as_json = arguments.json;
  if (arguments.schema) {
    std::cout << (as_json ? Json({{"schema", schema_json()}}).dump() + "\n" : schema_text());
    return kExitPass;
  }
  const Json all = everything();
  if (as_json) {
    std::cout << all.dump() << "\n";
    return kExitPass;
  }
  print_names("scenarios", all["scenarios"], "path", "about");
  print_names("checks", all["checks"], "name", "about");
  print_names("faults (--set fault=NAME)", all["faults"], "name", "about");
  return kExitPass;
}

}  // namespace

Action add_list(CLI::App& command) {
  const auto arguments = std::make_shared<ListArguments>();
  command.add_flag(
      "--schema", arguments->schema, "Every key of a scenario file: type, default, meaning");
  command.add_flag("--json", arguments->json, "Print one object instead of lines");
  const auto database = std::make_shared<std::string>();
  CLI::Option* runs =
      command
          .add_option(
              "--db",
              *database,
              "The runs of this database (alone: of NSA_HARNESS_DB, or in your data folder)")
          ->expected(0, 1)
          ->type_name("[FILE]");
  return [arguments, database, runs] {
    if (runs->count() > 0) arguments->database = *database;
    return list(*arguments);
  };
}

}  // namespace harness::cli
