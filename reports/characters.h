// Which bytes of a text that a worker wrote may stand in a document.
#pragma once

#include <cstddef>
#include <string_view>

namespace reports {

// How many bytes the character at `at` takes, where it is one of UTF-8 that XML 1.0 allows; 0 where there is none.
[[nodiscard]] std::size_t allowed_bytes(std::string_view text, std::size_t at);

// `rest` begins with the three bytes of a direction override (U+202A..U+202E, U+2066..U+2069), which can show a text
// in another order than it has.
[[nodiscard]] bool is_direction_override(std::string_view rest);

}  // namespace reports
