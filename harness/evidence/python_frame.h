// Frames of Python as they are told: "poll (selectors.py:415)", "wait (torch/utils/data/dataloader.py:1138)". One of the user's own
// code has the text of its line: "main (train.py:31): for batch in loader".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

// Of a file of an installed package, of Python's own library or of this program's package: its path as it is imported. Nothing for
// a file of the user's own.
[[nodiscard]] std::optional<std::string_view> library_path(std::string_view path);

// `text`: of the line; "" where it is not known.
[[nodiscard]] std::string told_frame(std::string_view name,
                                     std::string_view path,
                                     std::string_view line,
                                     std::string_view text);

[[nodiscard]] bool is_of_user(const std::string& frame);

// The innermost one of the user's own, without a colon or a comma at its end; "" if there is none.
[[nodiscard]] std::string users_line(const std::vector<std::string>& frames);

}  // namespace harness
