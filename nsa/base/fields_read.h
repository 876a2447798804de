// YAML -> members, by a table of fields. Strict: a wrong type, an unknown name and an unknown key are refused at their
// line. Ranges are checked by out_of_range() when all is read: a value without a default starts out of its range.
#pragma once

#include <vector>

#include "nsa/base/fields.h"

namespace nsa {

// Throws: Error at the line of the key that is meant, or of `node`, if there is a violation. `path` is that of `node`.
void refuse(const std::optional<Violation>& found, const YamlNode& node, const std::string& path);

// A text that is one of the names, if there are any, and fits.
[[nodiscard]] std::string read_accepted(const YamlNode& node,
                                        const std::string& what,
                                        const Accepts& accepts);

// Sizes: in range, each above the one before it.
void read_value(const YamlNode& node,
                const std::string& what,
                const Accepts& accepts,
                std::vector<std::int64_t>& out);

template <typename Value>
void read_value(const YamlNode& node, const std::string& what, const Accepts& accepts, Value& out) {
  if constexpr (kOptional<Value>) {
    typename Value::value_type value{};
    read_value(node, what, accepts, value);
    out = value;
  } else if constexpr (Named<Value>) {
    Accepts named = accepts;
    if (named.names.empty()) named.names = names_of(out);
    const std::string name = read_accepted(node, what, named);
    std::size_t index = 0;
    while (name != names_of(out)[index]) ++index;
    out = static_cast<Value>(index);
  } else if constexpr (std::same_as<Value, std::string>) {
    out = read_accepted(node, what, accepts);
  } else {
    read_value(node, what, out);
  }
}

template <typename Rows, typename Config>
void read_fields(const Rows& rows, YamlMap& map, Config& config);

// A whole map. Throws: Error if there is a key that the table does not have.
template <typename Rows, typename Config>
void read_map(const Rows& rows, const YamlNode& node, const std::string& path, Config& config) {
  YamlMap map(node, path);
  read_fields(rows, map, config);
  map.finish();
}

template <typename Config, typename Value>
void read_row(const Field<Config, Value>& field, YamlMap& map, Config& config) {
  const YamlNode* node = field.shape.required ? &map.require(field.key) : map.get(field.key);
  if (node != nullptr) {
    read_value(*node, map.name(field.key), field.accepts, config.*field.member);
  }
}

template <typename Member, typename Rows, typename Config>
void read_row(const Part<Member, Rows>& part, YamlMap& map, Config& config) {
  if constexpr (!kByHand<Rows>) {
    const YamlNode absent;  // reads as an empty map
    const YamlNode* found = map.get(part.key);
    const YamlNode& node = found != nullptr ? *found : absent;
    auto& member = part.of(config);
    if constexpr (!kOptional<std::remove_cvref_t<decltype(member)>>) {
      read_map(part.rows, node, map.name(part.key), member);
    } else if (node.kind != YamlNode::Kind::null) {
      read_map(part.rows, node, map.name(part.key), member.emplace());
    }
  }
}

template <typename Config>
void read_row(const ByHand& /*row*/, YamlMap& /*map*/, Config& /*config*/) {}

template <typename Rows, typename Config>
void read_fields(const Rows& rows, YamlMap& map, Config& config) {
  for_each_row(rows, [&](const auto& row) { read_row(row, map, config); });
}

}  // namespace nsa
