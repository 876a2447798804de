// Names and texts in two columns, wrapped, for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace harness::cli {

class Lines {
 public:
  void title(const std::string& text) { text_ += text + "\n"; }
  // `name` in the left column; long texts go on below their beginning.
  void add(const std::string& name, std::string_view text);
  void gap() { text_ += "\n"; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace harness::cli
