// What looks like a secret in a text, and the text without it. The one filter of everything that is stored, printed or bundled:
// arguments, variables, messages of exceptions, output. It knows forms (docs/database.md lists them), so what has none of them is
// not found: what must not be stored at all is not given to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nsa {

inline constexpr std::string_view kHidden = "***";

// Whether a variable, an option or a key of this name holds a secret: "API_KEY", "--auth-token", "dbPassword".
[[nodiscard]] bool is_secret_name(std::string_view name);

// The text with kHidden in the place of: user and password in URLs; what follows Bearer and Basic; tokens of well-known forms;
// private keys (PEM); values behind such names (NAME=x, "name": "x", --name x). The rest stays, byte for byte.
[[nodiscard]] std::string without_secrets(std::string_view text);

// Of a command: a value may be a word of its own (--token x), and ends where its word does.
[[nodiscard]] std::vector<std::string> words_without_secrets(const std::vector<std::string>& words);

// Of a variable: all of it where the name says so or it looks drawn (32 letters and digits without order).
[[nodiscard]] std::string value_without_secrets(std::string_view name, std::string_view value);

}  // namespace nsa
