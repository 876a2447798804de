// The diagrams that sections write for a forge to draw, as HTML that needs no program: shares of a whole as bars, a
// chart of lines, a tree as a list in a list.
#pragma once

#include <string>

namespace reports::html {

// "" of what no section writes. `code` is of the language mermaid.
[[nodiscard]] std::string diagram(const std::string& code);

}  // namespace reports::html
