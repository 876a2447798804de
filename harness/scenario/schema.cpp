#include "harness/scenario/schema.h"

#include <algorithm>
#include <string_view>

#include "harness/scenario/scenario_fields.h"

namespace harness {
namespace {

template <typename T>
constexpr bool kIsList = false;
template <typename T>
constexpr bool kIsList<std::vector<T>> = true;

template <typename Value>
std::string type_text(const nsa::Accepts& accepts) {
  if constexpr (nsa::kOptional<Value>) {
    return type_text<typename Value::value_type>(accepts);
  } else if constexpr (kIsList<Value>) {
    return "list of integers";
  } else if constexpr (std::same_as<Value, bool>) {
    return "true or false";
  } else if constexpr (std::integral<Value>) {
    return "integer";
  } else if constexpr (std::same_as<Value, double>) {
    return "number";
  } else {
    return nsa::Named<Value> || !accepts.names.empty() ? "name" : "text";
  }
}

// The default as a scenario file would have it; "required" where it is out of the range.
template <typename Config, typename Value>
std::string initial_text(const Field<Config, Value>& field) {
  const Config config;
  const Value& value = config.*field.member;
  if (field.shape.required || nsa::row_violation(field, config)) return "required";
  if constexpr (std::same_as<Value, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::integral<Value>) {
    return std::to_string(value);
  } else if constexpr (std::same_as<Value, double>) {
    return nsa::to_text(value);
  } else if constexpr (nsa::Named<Value>) {
    return nsa::name_of(value);
  } else if constexpr (std::same_as<Value, std::string>) {
    return value.empty() ? "\"\"" : value;
  } else {
    return "none";
  }
}

template <typename Rows>
void add_keys(const Rows& rows, const std::string& prefix, std::vector<SchemaKey>& out);

template <typename Config, typename Value>
void add_key(const Field<Config, Value>& field,
             const std::string& prefix,
             std::vector<SchemaKey>& out) {
  const auto& [type, initial, required, sparse] = field.shape;
  out.push_back({prefix + field.key,
                 type != nullptr ? type : type_text<Value>(field.accepts),
                 initial != nullptr ? initial : initial_text(field),
                 field.meaning});
}

template <typename Member, typename Rows>
void add_key(const Part<Member, Rows>& part,
             const std::string& prefix,
             std::vector<SchemaKey>& out) {
  const auto& [type, initial, required, sparse] = part.shape;
  out.push_back({prefix + part.key,
                 type != nullptr ? type : "map",
                 initial != nullptr ? initial : "",
                 part.meaning});
  add_keys(part.rows, prefix + part.key + ".", out);
}

void add_key(const ByHand& row, const std::string& prefix, std::vector<SchemaKey>& out) {
  out.push_back({prefix + row.key, row.type, row.initial, row.meaning});
}

template <typename Rows>
void add_keys(const Rows& rows, const std::string& prefix, std::vector<SchemaKey>& out) {
  nsa::for_each_row(rows, [&](const auto& row) { add_key(row, prefix, out); });
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()) + 2, ' ');
  return text;
}

}  // namespace

const std::vector<SchemaKey>& schema() {
  static const std::vector<SchemaKey> kKeys = [] {
    std::vector<SchemaKey> keys;
    add_keys(kScenarioFields, "", keys);
    return keys;
  }();
  return kKeys;
}

std::string schema_text() {
  std::size_t path = 0;
  std::size_t type = 0;
  std::size_t initial = 0;
  for (const SchemaKey& key : schema()) {
    path = std::max(path, key.path.size());
    type = std::max(type, key.type.size());
    initial = std::max(initial, key.initial.size());
  }
  std::string text =
      padded("KEY", path) + padded("TYPE", type) + padded("DEFAULT", initial) + "MEANING\n";
  for (const SchemaKey& key : schema()) {
    text += padded(key.path, path) + padded(key.type, type) + padded(key.initial, initial) +
            key.meaning + "\n";
  }
  return text;
}

}  // namespace harness
