// What agent and controller know each other by: a text of a case's own, drawn from the kernel's random numbers. The agent shows the
// first half, the controller the second: whoever takes the port of a controller that is gone learns nothing that makes an agent
// obey.
#pragma once

#include <string>
#include <string_view>

namespace harness {

class Token {
 public:
  [[nodiscard]] static Token drawn();  // Throws: nsa::Error.
  // Throws: nsa::Error where the text is none.
  [[nodiscard]] static Token of(std::string_view text);

  [[nodiscard]] const std::string& text() const {
    return text_;
  }  // for the environment, and for nothing else
  [[nodiscard]] std::string of_agent() const { return text_.substr(0, text_.size() / 2); }
  [[nodiscard]] std::string of_controller() const { return text_.substr(text_.size() / 2); }

 private:
  explicit Token(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// In a time that does not tell how much of it is right.
[[nodiscard]] bool same_secret(std::string_view a, std::string_view b);

}  // namespace harness
