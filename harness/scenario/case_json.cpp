// Case <-> canonical JSON: {"data": absolute paths, "id", "path", "point", "profile", "scenario": the document
// of a scenario file with every default filled in, "text"}.
#include "harness/scenario/case_json.h"

#include "harness/scenario/experiment.h"
#include "harness/scenario/fields_json.h"
#include "harness/scenario/scenario_fields.h"
#include "harness/scenario/scenario_read.h"
#include "nsa/base/hash.h"
#include "nsa/base/secrets.h"

namespace harness {
namespace {

using nlohmann::json;
using nsa::YamlMap;
using nsa::YamlNode;

constexpr std::size_t kIdDigits = 16;

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<std::pair<std::string, std::string>> read_point(const YamlNode& node) {
  std::vector<std::pair<std::string, std::string>> point;
  if (node.kind != YamlNode::Kind::sequence) throw nsa::Error(node.where, "point: wanted a list");
  for (const YamlNode& item : node.items) {
    const std::vector<std::string> pair = nsa::read_texts(item, "point");
    if (pair.size() != 2) throw nsa::Error(item.where, "point: wanted pairs [axis, value]");
    point.emplace_back(pair[0], pair[1]);
  }
  return point;
}

}  // namespace

std::vector<std::string> kept_words(const CommandConfig& command) {
  if (command.keeps_arguments || command.argv.size() < 2) {
    return nsa::words_without_secrets(command.argv);
  }
  return {command.argv.front(),
          "(" + std::to_string(command.argv.size() - 1) + " arguments that are not stored)"};
}

json scenario_json(const Scenario& scenario) {
  json out = fields_json(kScenarioFields, scenario);
  out["version"] = kFormatVersion;
  out["route"] = scenario.route;
  json& layers = out["parallel"]["checkpoint"]["layers"];
  layers = scenario.parallel.checkpoint_layers;
  if (layers.empty()) layers = "none";
  if (scenario.is_command()) {
    out["command"]["argv"] = kept_words(scenario.command);
    for (const char* part : {"model", "training", "parallel"}) out.erase(part);
  }
  if (scenario.fault && scenario.fault->rank) out["fault"]["rank"] = *scenario.fault->rank;
  if (scenario.fault && scenario.fault->all_ranks) out["fault"]["rank"] = "all";
  if (scenario.expect) out["expect"]["site"] = scenario.expect->site;
  if (scenario.known) {
    json& when = out["known"]["when"] = json::object();
    for (const auto& [path, value] : scenario.known->when) when[path] = value;
  }
  return out;
}

std::string case_id(const Case& the_case) {
  json content = scenario_json(the_case.scenario);
  for (const char* words : {"about", "claim"}) content.erase(words);
  content["profile"] = the_case.scenario.profile;
  return nsa::hash_hex(dump(content)).substr(0, kIdDigits);
}

std::string case_to_json(const Case& the_case) {
  const Scenario& scenario = the_case.scenario;
  json point = json::array();
  for (const auto& [axis, value] : the_case.point) point.push_back({axis, value});
  return dump(
      {{"id", the_case.id},
       {"point", point},
       {"path", scenario.path},
       {"profile", scenario.profile},
       {"data", scenario.training.data.text},
       {"text", scenario.is_command() ? nsa::without_secrets(scenario.text) : scenario.text},
       {"scenario", scenario_json(scenario)}});
}

Case case_from_json(const std::string& text, const std::string& file) {
  const YamlNode root = nsa::parse_yaml(text, file);
  YamlMap map(root, "");
  ReadContext context;
  Case the_case;
  map.read("id", the_case.id);
  if (const YamlNode* point = map.get("point")) the_case.point = read_point(*point);
  map.read("path", context.path);
  context.is_experiment = is_experiment(the_case);
  const YamlNode* document = map.get("scenario");
  if (document == nullptr) throw nsa::Error(root.where, "found no scenario, wanted a case");
  the_case.scenario = read_scenario(*document, context);
  map.read("profile", the_case.scenario.profile);
  map.read("data", the_case.scenario.training.data.text);
  map.read("text", the_case.scenario.text);
  map.finish();
  return the_case;
}

}  // namespace harness
