// Pieces of Markdown. Every text that is not a literal of the report goes through escape() or code_block(): what a worker
// wrote can neither form markup nor mention anyone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reports {

// One line of plain words: markup, HTML, links and mentions are defused, line breaks and control characters become spaces,
// direction overrides are dropped.
[[nodiscard]] std::string escape(std::string_view text);

// A fenced block; the fence is longer than any run of backticks inside. Ends with a newline.
[[nodiscard]] std::string code_block(std::string_view text, std::string_view language = "");

class Table {
 public:
  explicit Table(std::vector<std::string> header);
  // Cells are Markdown already. REQUIRES: as many as the header has.
  void row(std::vector<std::string> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] std::string text() const;  // with a blank line after it

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// A part that is shown only when it is asked for; nothing where `body` is empty. `title` is plain text.
[[nodiscard]] std::string folded(std::string_view title, const std::string& body);

// "1 case", "3 cases"
[[nodiscard]] std::string counted(std::int64_t count, std::string_view noun);
// "78,307,136"
[[nodiscard]] std::string grouped(std::int64_t number);
// "12.3 MB"
[[nodiscard]] std::string bytes_text(std::int64_t bytes);

}  // namespace reports
