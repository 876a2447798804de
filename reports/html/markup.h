// Pieces of HTML. Every text that is not a literal of the page goes through text(): what a worker wrote is neither
// markup nor a byte that no document may have.
#pragma once

#include <string>
#include <string_view>

#include "reports/blocks.h"
#include "reports/sections/wording.h"

namespace reports::html {

// Also for the value of an attribute in double quotes. Control characters become spaces except line breaks and tabs;
// bytes that are no UTF-8 become U+FFFD; direction overrides are dropped.
[[nodiscard]] std::string text(std::string_view plain);

// A line of Markdown's: outcomes, decisions and verdicts with their colour beside their word.
[[nodiscard]] std::string spans(const Spans& line);

// The word with a colour; for a word that has none, in strong letters.
[[nodiscard]] std::string word(std::string_view strong);

// `id` is one of Anchors.
[[nodiscard]] std::string link(std::string_view id, std::string_view plain);

// A part that is shown only when it is asked for. `title` is HTML.
[[nodiscard]] std::string folded(const std::string& title,
                                 const std::string& body,
                                 bool open = false);

// 12.5: the shortest text of a coordinate; finite and with at most two digits after the point.
[[nodiscard]] std::string number(double value);

}  // namespace reports::html
