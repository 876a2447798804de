#include "reports/markdown.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>

#include "nsa/base/text.h"
#include "reports/characters.h"

namespace reports {
namespace {

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

// An underscore inside a word is no emphasis and stays readable in the source.
bool inside_word(std::string_view text, std::size_t at) {
  return at > 0 && at + 1 < text.size() && (is_word(text[at - 1]) || text[at - 1] == '_') &&
         (is_word(text[at + 1]) || text[at + 1] == '_');
}

void append_escaped(std::string& out, std::string_view text, std::size_t at) {
  const char c = text[at];
  constexpr std::string_view kMarkup = "\\`*[]|~!$";
  if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
    out += ' ';
  } else if (c == '&') {
    out += "&amp;";
  } else if (c == '<') {
    out += "&lt;";
  } else if (c == '>') {
    out += "&gt;";
  } else if (c == '@' && at + 1 < text.size() && is_word(text[at + 1])) {
    out += "&#64;";
  } else if (starts_with(text.substr(at), "://")) {
    out += "&#58;";
  } else if (c == '.' && at >= 3 && text.substr(at - 3, 3) == "www") {
    out += "&#46;";
  } else if (kMarkup.find(c) != std::string_view::npos || (c == '_' && !inside_word(text, at))) {
    out += '\\';
    out += c;
  } else {
    out += c;
  }
}

// What would begin a heading, a list, a quotation or a rule.
bool begins_block(std::string_view text) {
  if (text.empty()) return false;
  constexpr std::string_view kStarts = "#-+=";
  if (kStarts.find(text.front()) != std::string_view::npos) return true;
  const std::size_t digits = text.find_first_not_of("0123456789");
  return digits != std::string_view::npos && digits > 0 &&
         (text[digits] == '.' || text[digits] == ')') &&
         (digits + 1 == text.size() || text[digits + 1] == ' ');
}

}  // namespace

std::string escape(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "";
  text.remove_prefix(first);
  std::string out;
  if (begins_block(text)) {
    const std::size_t digits = text.find_first_not_of("0123456789");
    out += std::string(text.substr(0, digits)) + "\\" + text[digits];
    text.remove_prefix(digits + 1);
  }
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (is_direction_override(text.substr(at))) {
      at += 2;
    } else {
      append_escaped(out, text, at);
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string code_block(std::string_view text, std::string_view language) {
  std::size_t longest = 2;
  std::size_t run = 0;
  std::string body;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    if (is_direction_override(text.substr(at))) {
      at += 2;
    } else if (c == '\n' || c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F)) {
      body += c;
    }
  }
  const std::string fence(longest + 1, '`');
  if (!body.empty() && body.back() != '\n') body += '\n';
  return fence + std::string(language) + "\n" + body + fence + "\n";
}

Table::Table(std::vector<std::string> header) : header_(std::move(header)) {}

void Table::row(std::vector<std::string> cells) {
  assert(cells.size() == header_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  const auto line = [](const std::vector<std::string>& cells) {
    return "| " + nsa::join(cells, " | ") + " |\n";
  };
  std::string text = line(header_) + line(std::vector<std::string>(header_.size(), "---"));
  for (const auto& cells : rows_) text += line(cells);
  return text + "\n";
}

std::string folded(std::string_view title, const std::string& body) {
  if (body.empty()) return "";
  std::string name;  // inside of HTML, where Markdown means nothing
  for (const char c : title) {
    if (c == '&')
      name += "&amp;";
    else if (c == '<')
      name += "&lt;";
    else if (c == '>')
      name += "&gt;";
    else if (c == '@')
      name += "&#64;";
    else
      name += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return "<details>\n<summary>" + name + "</summary>\n\n" + body + "</details>\n\n";
}

std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000.0 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  return (unit == 0 ? std::to_string(bytes) : nsa::to_text(value, 3)) + " " + kUnits[unit];
}

}  // namespace reports
