// Numbers and names as text, the same on every machine: no locale, shortest form that reads back equal.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nsa {

// "NaN", "Infinity", "-Infinity" for what is not finite; else the shortest decimal that reads back to the same double.
[[nodiscard]] std::string to_text(double value);

// Rounded to `digits` significant ones, for people ("1.23e-07", "42.1"); NaN and infinities as above.
[[nodiscard]] std::string to_text(double value, int digits);

// The whole text as one number, or nothing. Accepts what to_text() writes, and YAML's ".nan", ".inf", "-.inf".
[[nodiscard]] std::optional<double> parse_double(std::string_view text);
[[nodiscard]] std::optional<std::int64_t> parse_int(std::string_view text);

// The known name with the smallest edit distance, or "" when none is near (distance over a third of the length, or over
// `most_edits`).
[[nodiscard]] std::string nearest_name(std::string_view name,
                                       std::span<const std::string> known,
                                       std::size_t most_edits = SIZE_MAX);

// "a, b, c"
[[nodiscard]] std::string join(std::span<const std::string> parts,
                               std::string_view separator = ", ");

// "run 'a b'": words as a shell would take them back.
[[nodiscard]] std::string shell_text(std::span<const std::string> words);

// The text with blanks in the place of what steers a terminal or turns the direction of what is read: C0 but for those of `kept`,
// DEL, C1, the marks of direction and of lines in Unicode, and bytes of 0x80 to 0x9f that belong to no character.
[[nodiscard]] std::string without_steering(std::string_view text, std::string_view kept = {});

// [3, 4, 5, 9] -> "3-5, 9" (the input must be ascending).
[[nodiscard]] std::string ranges_text(std::span<const int> ascending);

}  // namespace nsa
