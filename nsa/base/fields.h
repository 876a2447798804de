// What a map of a scenario file may hold, as a table: one row for each key. Strict reading (fields_read.h), the check of
// ranges below, the JSON of a case and `list --schema` follow from the tables; a key is added by one row. A table is a
// constexpr std::tuple of rows: Field, Part and ByHand.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "nsa/base/names.h"
#include "nsa/base/text.h"
#include "nsa/base/yaml.h"

namespace nsa {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// What a field accepts beyond its type.
struct Accepts {
  double low = -kUnbounded;  // of a number, and of each in a list
  double high = kUnbounded;
  bool low_excluded = false;
  bool high_excluded = false;
  Names names = {};  // of a text; empty: any text, any name of the enumeration
  bool (*fits)(const std::string&) = nullptr;  // of a text
  const char* wanted = nullptr;                // how a message calls a text that fits

  [[nodiscard]] bool has(double number) const;             // false for NaN, if there is a range
  [[nodiscard]] std::string range_text(bool whole) const;  // "0..8", "above 0 to 1"
};
[[nodiscard]] constexpr Accepts within(double low, double high) {
  return {.low = low, .high = high};
}
[[nodiscard]] constexpr Accepts above(double low, double high) {
  return {.low = low, .high = high, .low_excluded = true};
}
[[nodiscard]] constexpr Accepts between(double low, double high) {
  return {.low = low, .high = high, .low_excluded = true, .high_excluded = true};
}
[[nodiscard]] constexpr Accepts one_of(Names names) {
  return {.names = names};
}
[[nodiscard]] constexpr Accepts text_that(bool (*fits)(const std::string&), const char* wanted) {
  return {.fits = fits, .wanted = wanted};
}

// How a row differs from what follows from its member.
struct Shape {
  const char* type = nullptr;     // as the schema calls it
  const char* initial = nullptr;  // the default, as the schema calls it
  bool required = false;          // refused when absent
  bool sparse = false;            // not in the JSON of a case while it has its default
};

// A key whose value fills one member.
template <typename Config, typename Value>
struct Field {
  const char* key;
  Value Config::*member;
  const char* meaning;
  Accepts accepts = {};
  Shape shape = {};
};
template <typename Config, typename Value>
Field(const char*, Value Config::*, const char*, Accepts = {}, Shape = {}) -> Field<Config, Value>;

// A key that holds a map with the rows of its own. `member` is a struct, an optional one, or kSame: the rows fill members
// of the struct that has the part.
struct Same {};
inline constexpr Same kSame;
template <typename Member, typename Rows>
struct Part {
  const char* key;
  Member member;
  const Rows& rows;
  const char* meaning;
  Shape shape = {};

  // The struct that the rows are about; of an optional one the optional.
  template <typename Config>
  [[nodiscard]] constexpr auto& of(Config& config) const {
    if constexpr (std::same_as<Member, Same>) {
      return config;
    } else {
      return config.*member;
    }
  }
};
template <typename Member, typename Rows>
Part(const char*, Member, const Rows&, const char*, Shape = {}) -> Part<Member, Rows>;

// A key that code of its own reads and writes, since it needs more than its value: the table documents it.
struct ByHand {
  const char* key;
  const char* type;
  const char* initial;
  const char* meaning;
};

// Whether a table holds such a row. A part that does is read by code of its own too.
template <typename Row>
inline constexpr bool kByHand = std::same_as<Row, ByHand>;
template <typename... Rows>
inline constexpr bool kByHand<std::tuple<Rows...>> = (kByHand<Rows> || ...);
template <typename Member, typename Rows>
inline constexpr bool kByHand<Part<Member, Rows>> = kByHand<Rows>;

template <typename T>
inline constexpr bool kOptional = false;
template <typename T>
inline constexpr bool kOptional<std::optional<T>> = true;

template <typename Rows, typename Visit>
constexpr void for_each_row(const Rows& rows, const Visit& visit) {
  std::apply([&](const auto&... row) { (visit(row), ...); }, rows);
}

// The first law that a configuration breaks, with the key it is about.
struct Violation {
  std::string key;   // "optimizer.lr", "" when it is about the whole
  std::string text;  // "found 3, wanted ..."
};
[[nodiscard]] std::optional<Violation> violation_of(const Accepts& accepts, std::int64_t value);
[[nodiscard]] std::optional<Violation> violation_of(const Accepts& accepts, double value);

// The first number out of its range, in the order of the table.
template <typename Rows, typename Config>
[[nodiscard]] std::optional<Violation> out_of_range(const Rows& rows, const Config& config);

template <typename Config, typename Value>
[[nodiscard]] std::optional<Violation> row_violation(const Field<Config, Value>& field,
                                                     const Config& config) {
  std::optional<Violation> found;
  if constexpr (std::same_as<Value, double>) {
    found = violation_of(field.accepts, config.*field.member);
  } else if constexpr (std::integral<Value> && !std::same_as<Value, bool>) {
    found = violation_of(field.accepts, std::int64_t{config.*field.member});
  }
  if (found) found->key = field.key;
  return found;
}

template <typename Member, typename Rows, typename Config>
[[nodiscard]] std::optional<Violation> row_violation(const Part<Member, Rows>& part,
                                                     const Config& config) {
  const auto& member = part.of(config);
  std::optional<Violation> found;
  if constexpr (!kOptional<std::remove_cvref_t<decltype(member)>>) {
    found = out_of_range(part.rows, member);
  } else if (member) {
    found = out_of_range(part.rows, *member);
  }
  if (found) found->key.insert(0, std::string(part.key) + ".");
  return found;
}

template <typename Config>
[[nodiscard]] std::optional<Violation> row_violation(const ByHand& /*row*/,
                                                     const Config& /*config*/) {
  return std::nullopt;
}

template <typename Rows, typename Config>
std::optional<Violation> out_of_range(const Rows& rows, const Config& config) {
  std::optional<Violation> first;
  for_each_row(rows, [&](const auto& row) {
    if (!first) first = row_violation(row, config);
  });
  return first;
}

}  // namespace nsa
