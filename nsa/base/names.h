// Enumerations whose values have names in files: `names_of(Enum)`, declared beside the enumeration, gives them in the
// order of its values.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

namespace nsa {

using Names = std::span<const char* const>;

template <typename Enum>
concept Named = std::is_enum_v<Enum> && requires(Enum value) {
  { names_of(value) } -> std::convertible_to<Names>;
};

template <Named Enum>
[[nodiscard]] const char* name_of(Enum value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

}  // namespace nsa
