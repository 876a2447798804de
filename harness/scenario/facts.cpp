#include "harness/scenario/facts.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace harness {
namespace {

constexpr const char* kMore = "_more";

// Numbers that JSON cannot hold are stored as text.
bool is_number(const nlohmann::json& value) {
  if (!value.is_string()) return value.is_number();
  const auto& text = value.get_ref<const std::string&>();
  return text == "NaN" || text == "Infinity" || text == "-Infinity";
}

bool is_of(FactKind kind, const nlohmann::json& value) {
  switch (kind) {
    case FactKind::number: return is_number(value);
    case FactKind::text: return value.is_string();
    case FactKind::list: return value.is_array();
    case FactKind::table: return value.is_object();
    case FactKind::truth: return value.is_boolean();
    case FactKind::any: break;
  }
  return !value.is_null();
}

// "params_more" counts what a list of `params` leaves out.
FactKind kind_of(const std::string& name) {
  for (const FactRow& row : kFacts) {
    if (row.name == name) return row.kind;
    if (row.name + std::string(kMore) == name) return FactKind::number;
  }
  return FactKind::any;
}

}  // namespace

const char* name_of(FactKind kind) {
  constexpr std::array kNames = {"a number", "a text", "a list", "a map", "true or false", "a value"};
  return kNames.at(static_cast<std::size_t>(kind));
}

void Facts::put_some(FactName name, const std::vector<std::string>& names) {
  constexpr std::size_t kMostNamed = 4;  // a sentence stays readable
  const auto shown = static_cast<std::ptrdiff_t>(std::min(names.size(), kMostNamed));
  json_[name.name()] = std::vector<std::string>(names.begin(), names.begin() + shown);
  const std::size_t more = names.size() - static_cast<std::size_t>(shown);
  if (more > 0) json_[name.name() + std::string(kMore)] = more;
}

const nlohmann::json* Facts::find(const std::string& name) const {
  if (!json_.is_object()) return nullptr;
  const auto at = json_.find(name);
  return at == json_.end() ? nullptr : &*at;
}

void Facts::erase_empty_lists() {
  for (auto at = json_.begin(); at != json_.end();) {
    at = at->is_array() && at->empty() ? json_.erase(at) : std::next(at);
  }
}

void Facts::take(const std::string& name, const Facts& other) {
  if (const nlohmann::json* fact = other.find(name)) json_[name] = *fact;
}

std::string Facts::misfit() const {
  for (const auto& [name, value] : json_.items()) {
    const FactKind kind = kind_of(name);
    if (is_of(kind, value)) continue;
    return name + ": found " + value.dump() + ", wanted " + name_of(kind);
  }
  return "";
}

void to_json(nlohmann::json& json, const Facts& facts) {
  json = facts.json();
}

void from_json(const nlohmann::json& json, Facts& facts) {
  facts = Facts(json);
}

}  // namespace harness
