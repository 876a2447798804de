#include "harness/store/identity.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/scenario/case_json.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"
#include "nsa/base/strict_json.h"

namespace harness {
namespace {

using nlohmann::json;

constexpr nsa::JsonLimits kCaseLimits = {std::size_t{4} << 20, 32};
constexpr std::size_t kIdDigits = 16;

// `content` without the members that are as they are in `initial`.
json without_defaults(const json& content, const json& initial) {
  json rest = json::object();
  for (const auto& [key, value] : content.items()) {
    const auto at = initial.find(key);
    if (at == initial.end()) {
      rest[key] = value;
    } else if (value.is_object() && at->is_object()) {
      json inner = without_defaults(value, *at);
      if (!inner.empty()) rest[key] = std::move(inner);
    } else if (value != *at) {
      rest[key] = value;
    }
  }
  return rest;
}

// A seam that nobody asks anything of has the reference, also one that this version does not know yet.
void drop_reference_routes(json& content) {
  const auto route = content.find("route");
  if (route == content.end() || !route->is_object()) return;
  json asked = json::object();
  for (const auto& [seam, name] : route->items()) {
    if (name != "reference") asked[seam] = name;
  }
  *route = std::move(asked);
}

// The names of the texts, without the folders they lie in.
void drop_folders(json& content) {
  const json::json_pointer at("/training/data/text");
  if (!content.contains(at) || !content[at].is_array()) return;
  for (json& path : content[at]) {
    if (!path.is_string()) continue;
    path = std::filesystem::path(path.get<std::string>()).filename().string();
  }
}

}  // namespace

Identity identity_of(const std::string& case_json) {
  try {
    const json document = nsa::parse_json_object(case_json, kCaseLimits, "case");
    json content = document.at("scenario");
    for (const char* key :
         {"version", "about", "checks", "expect", "known", "requires", "budget"}) {
      content.erase(key);
    }
    drop_reference_routes(content);
    drop_folders(content);
    static const json kInitial = scenario_json(Scenario{});
    content = without_defaults(content, kInitial);
    Identity identity;
    document.at("profile").get_to(identity.profile);
    content["profile"] = identity.profile;
    const std::string text = content.dump(-1, ' ', false, json::error_handler_t::replace);
    identity.history_id = nsa::hash_hex(text).substr(0, kIdDigits);
    return identity;
  } catch (const json::exception& error) {
    throw nsa::Error(std::string("a case's description: ") + error.what());
  }
}

bool plants_fault(const std::string& case_json) {
  const json document = json::parse(case_json, nullptr, false);
  const json::json_pointer fault("/scenario/fault");
  return document.is_object() && document.contains(fault) && document.at(fault).is_object();
}

}  // namespace harness
