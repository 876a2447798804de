// JSON from strangers: bounded in length and depth before anything is built from it, no name twice in one object, and what is
// said of it is short whatever it holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace nsa {

struct JsonLimits {
  std::size_t bytes = 0;
  int depth = 0;  // objects and lists inside of each other; an object of numbers has 1
};

// An object. Throws: Error, `where` in front of it, with what was found and wanted.
[[nodiscard]] nlohmann::json parse_json_object(std::string_view text,
                                               const JsonLimits& limits,
                                               const std::string& where);

// The whole number at `key`, within [low, high]. Throws: Error naming the key and what was found.
[[nodiscard]] std::int64_t integer_at(const nlohmann::json& object,
                                      const std::string& key,
                                      std::int64_t low,
                                      std::int64_t high);

// A value in a message: "3", "\"abc\"", "a list". Bounded, and of bounded recursion.
[[nodiscard]] std::string found_text(const nlohmann::json& value);

// At most some 80 bytes of it, then "...".
[[nodiscard]] std::string shortened(std::string_view text);

}  // namespace nsa
