#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>

#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/verbs.h"
#include "harness/core/exit_code.h"
#include "harness/core/scenario_file.h"
#include "harness/core/schema.h"
#include "nsa/base/error.h"

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

int list(bool with_schema, bool as_json) {
  if (with_schema) {
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

struct ListArguments {
  bool schema = false;
  bool json = false;
};

}  // namespace

Action add_list(CLI::App& command) {
  const auto arguments = std::make_shared<ListArguments>();
  command.add_flag(
      "--schema", arguments->schema, "Every key of a scenario file: type, default, meaning");
  command.add_flag("--json", arguments->json, "Print one object instead of lines");
  return [arguments] { return list(arguments->schema, arguments->json); };
}

}  // namespace harness::cli
