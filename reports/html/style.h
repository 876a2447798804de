// How the page looks, and its one script: a search, and opening what a link leads to. Without it everything is there.
#pragma once

namespace reports::html {

[[nodiscard]] const char* style();
[[nodiscard]] const char* script();

}  // namespace reports::html
