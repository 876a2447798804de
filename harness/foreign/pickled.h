// Reads data that Python's pickle wrote: numbers, texts, lists, tuples and dictionaries, and nothing else. A pickle is a program;
// the parts of it that import modules, call functions or make objects are refused, so a file can do nothing but fail to be read.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace harness {

// Tuples become arrays, keys of dictionaries texts. `left_out`: a key whose values are not wanted. Throws: nsa::Error saying what
// is wrong with it.
[[nodiscard]] nlohmann::json read_pickled(std::string_view bytes, std::string_view left_out = "");

}  // namespace harness
