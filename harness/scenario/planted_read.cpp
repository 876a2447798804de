// What a planted fault is, and what must be said of it.
#include <algorithm>

#include "harness/scenario/scenario_read.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nsa::Error;
using nsa::YamlMap;
using nsa::YamlNode;

const FaultInfo& info_of(const YamlNode& node, const Manifest& manifest) {
  std::vector<std::string> names;
  for (const FaultInfo& fault : manifest.faults) names.push_back(fault.name);
  const std::string name = nsa::read_name(node, "fault.name", names);
  return *std::find_if(manifest.faults.begin(), manifest.faults.end(), [&](const FaultInfo& fault) {
    return fault.name == name;
  });
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A parameter that the fault does not heed would be a silent no-op.
void check_against(const FaultInfo& info, const YamlNode& node, const FaultRequest& fault) {
  for (const char* parameter : {"layers", "rank", "step", "strength", "form"}) {
    const YamlNode* given = node.find(parameter);
    if (given != nullptr && !has(info.uses, parameter)) {
      throw Error(given->where,
                  std::string("fault.") + parameter + ": " + info.name +
                      " does not heed it, wanted only " +
                      (info.uses.empty() ? "seed" : nsa::join(info.uses) + ", seed"));
    }
  }
  if (!fault.form.empty()) (void)nsa::read_name(*node.find("form"), "fault.form", info.forms);
}

void read_rank(YamlMap& map, std::int64_t ranks, FaultRequest& fault) {
  const YamlNode* node = map.get("rank");
  if (node == nullptr) return;
  if (node->kind == YamlNode::Kind::scalar && node->scalar == "all") {
    fault.all_ranks = true;
    return;
  }
  const auto rank = node->kind == YamlNode::Kind::scalar && !node->quoted
                        ? nsa::parse_int(node->scalar)
                        : std::nullopt;
  if (!rank || *rank < 0 || *rank >= ranks) {
    throw Error(node->where,
                "fault.rank: found " + nsa::found_text(*node) + ", wanted all or 0.." +
                    std::to_string(ranks - 1));
  }
  fault.rank = static_cast<int>(*rank);
}

void check_layers(const YamlNode* node, const FaultRequest& fault, std::int64_t n_layers) {
  for (std::size_t i = 0; i < fault.layers.size(); ++i) {
    const int layer = fault.layers[i];
    const bool again = std::count(fault.layers.begin(), fault.layers.end(), layer) > 1;
    if (layer < 0 || layer >= n_layers || again) {
      throw Error(node->items[i].where,
                  "fault.layers: found " + std::to_string(layer) + (again ? " twice" : "") +
                      ", wanted layers of 0.." + std::to_string(n_layers - 1) + ", each once");
    }
  }
}

// "GRAD.MISSING", or several joined by " or ".
bool is_code(std::string_view text) {
  const auto one = [](std::string_view code) {
    const std::size_t dot = code.find('.');
    const bool parts = dot != std::string_view::npos && dot > 0 && dot + 1 < code.size();
    return parts &&
           code.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") ==
               std::string_view::npos &&
           code.find('.', dot + 1) == std::string_view::npos;
  };
  while (true) {
    const std::size_t at = text.find(" or ");
    if (!one(text.substr(0, at))) return false;
    if (at == std::string_view::npos) return true;
    text.remove_prefix(at + 4);
  }
}

nlohmann::json json_of(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null: return nullptr;
    case YamlNode::Kind::sequence: {
      auto list = nlohmann::json::array();
      for (const YamlNode& item : node.items) list.push_back(json_of(item));
      return list;
    }
    case YamlNode::Kind::map: {
      auto map = nlohmann::json::object();
      for (const auto& [key, value] : node.entries) map[key] = json_of(value);
      return map;
    }
    case YamlNode::Kind::scalar: break;
  }
  if (node.quoted) return node.scalar;
  if (node.scalar == "true" || node.scalar == "false") return node.scalar == "true";
  if (const auto whole = nsa::parse_int(node.scalar)) return *whole;
  const auto number = nsa::parse_double(node.scalar);
  if (number && *number - *number == 0.0) return *number;  // JSON knows finite ones only
  return node.scalar;
}

template <typename Integer>
void read_optional(YamlMap& map, const std::string& key, std::optional<Integer>& out) {
  Integer value = 0;
  const bool given = map.get(key) != nullptr;
  map.read(key, value);
  if (given) out = value;
}

Site read_site(const YamlNode& node) {
  YamlMap map(node, "expect.site");
  Site site;
  map.read("layers", site.layers);
  map.read("branch", site.branch);
  map.read("param", site.param);
  map.read("op", site.op);
  map.read("heads", site.heads);
  map.read("rows", site.rows);
  map.read("ranks", site.ranks);
  read_optional(map, "step", site.step);
  read_optional(map, "bucket", site.bucket);
  read_optional(map, "sequence", site.sequence);
  map.read("phase", site.phase);
  if (const YamlNode* detail = map.get("detail")) {
    YamlMap(*detail, "expect.site.detail");  // refuses what is no map
    if (detail->kind == YamlNode::Kind::map) site.detail = json_of(*detail);
  }
  map.finish();
  return site;
}

}  // namespace

FaultRequest read_fault(const YamlNode& node, const Scenario& scenario, const Manifest* manifest) {
  YamlMap map(node, "fault");
  FaultRequest fault;
  const YamlNode* name = map.get("name");
  if (name == nullptr) throw Error(node.where, "fault: found no name, wanted one");
  fault.name = nsa::read_text(*name, "fault.name");
  const FaultInfo* info = manifest != nullptr ? &info_of(*name, *manifest) : nullptr;
  map.read("layers", fault.layers);
  check_layers(node.find("layers"), fault, scenario.model.n_layers);
  read_rank(map, scenario.parallel.ranks, fault);
  map.read("step", fault.step);
  if (fault.step < 1 || fault.step > scenario.training.steps) {
    throw Error(node.find("step")->where,
                "fault.step: found " + std::to_string(fault.step) + ", wanted 1.." +
                    std::to_string(scenario.training.steps));
  }
  map.read("strength", fault.strength);
  if (!(fault.strength > 0.0 && fault.strength <= 1.0)) {
    throw Error(node.find("strength")->where,
                "fault.strength: found " + nsa::to_text(fault.strength) + ", wanted above 0 to 1");
  }
  map.read("seed", fault.seed);
  map.read("form", fault.form);
  map.finish();
  if (info != nullptr) check_against(*info, node, fault);
  return fault;
}

std::string read_code(const YamlNode& node, const std::string& what) {
  std::string code = nsa::read_text(node, what);
  if (!is_code(code)) {
    throw Error(node.where,
                what + ": found " + nsa::found_text(node) +
                    ", wanted a code like GRAD.MISSING, or several joined by \" or \"");
  }
  return code;
}

Expectation read_expectation(const YamlNode& node) {
  YamlMap map(node, "expect");
  Expectation expectation;
  if (const YamlNode* outcome = map.get("outcome")) {
    std::vector<std::string> names;
    for (int i = 0; i <= static_cast<int>(Outcome::xpass); ++i) {
      names.emplace_back(name_of(static_cast<Outcome>(i)));
    }
    expectation.outcome = outcome_from(nsa::read_name(*outcome, "expect.outcome", names));
  }
  if (const YamlNode* code = map.get("code")) expectation.code = read_code(*code, "expect.code");
  if (const YamlNode* site = map.get("site")) expectation.site = read_site(*site);
  map.finish();
  if (!expectation.outcome && expectation.code.empty()) {
    throw Error(node.where, "expect: found neither outcome nor code, wanted at least one");
  }
  return expectation;
}

}  // namespace harness
