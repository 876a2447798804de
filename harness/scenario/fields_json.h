// Members -> JSON, by a table of fields. Rows that are read by hand are left to the caller.
#pragma once

#include <nlohmann/json.hpp>

#include "nsa/base/fields.h"

namespace harness {

template <typename Value>
[[nodiscard]] nlohmann::json value_json(const Value& value) {
  if constexpr (nsa::Named<Value>) {
    return nsa::name_of(value);
  } else {
    return value;
  }
}

template <typename Rows, typename Config>
[[nodiscard]] nlohmann::json fields_json(const Rows& rows, const Config& config);

template <typename Config, typename Value>
void put_row(const nsa::Field<Config, Value>& field, const Config& config, nlohmann::json& out) {
  static const Config kInitial;
  const Value& value = config.*field.member;
  if constexpr (nsa::kOptional<Value>) {
    if (value) out[field.key] = value_json(*value);
  } else if (!field.shape.sparse || value != kInitial.*field.member) {
    out[field.key] = value_json(value);
  }
}

template <typename Member, typename Rows, typename Config>
void put_row(const nsa::Part<Member, Rows>& part, const Config& config, nlohmann::json& out) {
  using Sub = std::remove_cvref_t<decltype(part.of(config))>;
  const Sub& sub = part.of(config);
  if constexpr (nsa::kOptional<Sub>) {
    if (sub) out[part.key] = fields_json(part.rows, *sub);
  } else if (!part.shape.sparse || sub != Sub()) {
    out[part.key] = fields_json(part.rows, sub);
  }
}

template <typename Config>
void put_row(const nsa::ByHand& /*row*/, const Config& /*config*/, nlohmann::json& /*out*/) {}

template <typename Rows, typename Config>
nlohmann::json fields_json(const Rows& rows, const Config& config) {
  auto out = nlohmann::json::object();
  nsa::for_each_row(rows, [&](const auto& row) { put_row(row, config, out); });
  return out;
}

}  // namespace harness
