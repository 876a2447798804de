// What a planted fault is, and what must be said of it.
#include <algorithm>

#include "harness/scenario/planted_fields.h"
#include "harness/scenario/scenario_read.h"
#include "nsa/base/config_bounds.h"
#include "nsa/base/fields_read.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

using nsa::Error;
using nsa::YamlMap;
using nsa::YamlNode;

const FaultInfo& info_of(const YamlNode& node, const Manifest& manifest) {
  std::vector<std::string> names;
  for (const FaultInfo& fault : manifest.faults) names.push_back(fault.name);
  return manifest.fault_named(nsa::read_name(node, "fault.name", names));
}

// A parameter that the fault does not heed would be a silent no-op.
void check_against(const FaultInfo& info, const YamlNode& node, const FaultRequest& fault) {
  for (const char* parameter : {"layers", "rank", "step", "strength", "form"}) {
    const YamlNode* given = node.find(parameter);
    if (given != nullptr && !info.heeds(parameter)) {
      throw Error(given->where,
                  std::string("fault.") + parameter + ": " + info.name +
                      " does not heed it, wanted only " +
                      (info.uses.empty() ? "seed" : nsa::join(info.uses) + ", seed"));
    }
  }
  if (!fault.form.empty()) (void)nsa::read_name(*node.find("form"), "fault.form", info.forms);
}

std::int64_t as_count(double bound) {
  return static_cast<std::int64_t>(bound);
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

}  // namespace

bool is_code(const std::string& text) {
  const auto one = [](std::string_view code) {
    const std::size_t dot = code.find('.');
    const bool parts = dot != std::string_view::npos && dot > 0 && dot + 1 < code.size();
    return parts &&
           code.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") ==
               std::string_view::npos &&
           code.find('.', dot + 1) == std::string_view::npos;
  };
  std::string_view rest = text;
  while (true) {
    const std::size_t at = rest.find(" or ");
    if (!one(rest.substr(0, at))) return false;
    if (at == std::string_view::npos) return true;
    rest.remove_prefix(at + 4);
  }
}

FaultRequest read_fault(const YamlNode& node,
                        const Scenario& scenario,
                        const ReadContext& context) {
  const bool anywhere =
      context.is_experiment;  // layers, ranks and steps may be fewer than it names
  YamlMap map(node, "fault");
  FaultRequest fault;
  nsa::read_fields(kFaultFields, map, fault);
  read_rank(map, anywhere ? as_count(nsa::kMaxRanks) : scenario.parallel.ranks, fault);
  map.finish();
  nsa::refuse(nsa::out_of_range(kFaultFields, fault), node, "fault");
  const Manifest* manifest = context.manifest;
  if (manifest != nullptr) check_against(info_of(*node.find("name"), *manifest), node, fault);
  check_layers(
      node.find("layers"), fault, anywhere ? as_count(nsa::kMaxLayers) : scenario.model.n_layers);
  if (fault.step < 1 || (!anywhere && fault.step > scenario.training.steps)) {
    throw Error(node.find("step")->where,
                "fault.step: found " + std::to_string(fault.step) + ", wanted 1.." +
                    std::to_string(scenario.training.steps));
  }
  return fault;
}

Expectation read_expectation(const YamlNode& node) {
  YamlMap map(node, "expect");
  Expectation expectation;
  nsa::read_fields(kExpectFields, map, expectation);
  if (const YamlNode* site = map.get("site")) {
    YamlMap part(*site, map.name("site"));
    nsa::read_fields(kSiteFields, part, expectation.site);
    if (const YamlNode* detail = part.get("detail")) {
      YamlMap(*detail, part.name("detail"));  // refuses what is no map
      if (detail->kind == YamlNode::Kind::map) expectation.site.detail = Facts(json_of(*detail));
    }
    part.finish();
  }
  map.finish();
  if (!expectation.outcome && expectation.code.empty()) {
    throw Error(node.where, "expect: found neither outcome nor code, wanted at least one");
  }
  return expectation;
}

}  // namespace harness
