#include "reports/html/markup.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "reports/characters.h"

namespace reports::html {
namespace {

struct Meaning {
  std::string_view word;
  std::string_view style;
};

// Status is a word first; the colour only repeats it.
constexpr std::array kMeanings = {Meaning{"GO", "good"},
                                  Meaning{"CONDITIONAL GO", "open"},
                                  Meaning{"NO-GO", "bad"},
                                  Meaning{"PASS", "good"},
                                  Meaning{"FAIL", "bad"},
                                  Meaning{"HANG", "bad"},
                                  Meaning{"SLOW", "bad"},
                                  Meaning{"CRASH", "bad"},
                                  Meaning{"OOM", "bad"},
                                  Meaning{"XPASS", "bad"},
                                  Meaning{"ERROR", "bad"},
                                  Meaning{"INCONCLUSIVE", "open"},
                                  Meaning{"XFAIL", "open"},
                                  Meaning{"SKIP", "open"},
                                  Meaning{"NIGHT LOST", "bad"},
                                  Meaning{"NIGHT MISSING", "bad"},
                                  Meaning{"CELL MISSING", "bad"},
                                  Meaning{"SLOWER", "bad"}};

}  // namespace

std::string text(std::string_view plain) {
  std::string out;
  out.reserve(plain.size());
  for (std::size_t at = 0; at < plain.size();) {
    const char c = plain[at];
    const std::size_t bytes = allowed_bytes(plain, at);
    if (is_direction_override(plain.substr(at))) {
      at += 3;
      continue;
    }
    if (bytes == 0) {
      const bool control = static_cast<unsigned char>(c) < 0x20;
      out += control ? " " : "\xEF\xBF\xBD";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (c == '\x7F' || c == '\r') {
      out += ' ';
    } else {
      out += plain.substr(at, bytes);
    }
    at += bytes == 0 ? 1 : bytes;
  }
  return out;
}

std::string word(std::string_view strong) {
  for (const Meaning& known : kMeanings) {
    if (known.word != strong) continue;
    return "<strong class=\"word " + std::string(known.style) + "\">" + text(strong) + "</strong>";
  }
  return "<strong>" + text(strong) + "</strong>";
}

std::string spans(const Spans& line) {
  std::string out;
  for (const Span& span : line) out += span.strong ? word(span.text) : text(span.text);
  return out;
}

std::string link(std::string_view id, std::string_view plain) {
  return "<a href=\"#" + text(id) + "\">" + text(plain) + "</a>";
}

std::string folded(const std::string& title, const std::string& body, bool open) {
  if (body.empty()) return "";
  return std::string(open ? "<details open>" : "<details>") + "<summary>" + title +
         "</summary>\n<div class=\"inside\">" + body + "</div></details>\n";
}

std::string number(double value) {
  if (!std::isfinite(value)) return "0";
  std::array<char, 64> digits{};
  std::snprintf(digits.data(), digits.size(), "%.2f", value);
  std::string shortest = digits.data();
  while (shortest.back() == '0') shortest.pop_back();
  if (shortest.back() == '.') shortest.pop_back();
  return shortest == "-0" ? "0" : shortest;
}

}  // namespace reports::html
