#include "harness/evidence/gradient_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

namespace harness {
namespace {

// Writes the members of one object in the order in which they are given.
class Members {
 public:
  explicit Members(std::string& text) : text_(text) {}

  void number(std::string_view key, std::int64_t value) {
    begin(key);
    char digits[20];  // of any 64-bit number, with its sign
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text_.append(digits, end);
  }
  void flag(std::string_view key, bool value) {
    begin(key);
    text_ += value ? "true" : "false";
  }
  void words(std::string_view key, const std::string& value) {
    begin(key);
    const bool plain = std::all_of(value.begin(), value.end(), [](char c) {
      return c >= ' ' && c <= '~' && c != '"' && c != '\\';
    });
    if (plain) {
      (text_ += '"').append(value) += '"';
    } else {
      any(value);
    }
  }
  void real(std::string_view key, const Real& value) {
    begin(key);
    if (value.value == 0.0 && !std::signbit(value.value)) {
      text_ += "0.0";
    } else {
      any(value);
    }
  }

 private:
  void begin(std::string_view key) {
    text_ += text_.back() == '{' ? "\"" : ",\"";
    text_.append(key) += "\":";
  }
  template <typename Value>
  void any(const Value& value) {
    text_ += nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  std::string& text_;
};

void append_body(std::string& text, const Gradient& row) {
  text += '{';
  Members members(text);
  members.real("absmax", row.absmax);
  members.number("bucket", row.bucket);
  members.words("hash_after", row.hash_after);
  members.words("hash_before", row.hash_before);
  members.number("hooks_expected", row.hooks_expected);
  members.number("hooks_found", row.hooks_found);
  members.number("index", row.index);
  members.real("l2", row.l2);
  members.number("of_rank", row.of_rank);
  members.words("param", row.param);
  members.words("piece", row.piece);
  if (row.reachable == Reach::unknown) {
    members.words("reachable", "unknown");
  } else {
    members.flag("reachable", row.reachable == Reach::yes);
  }
  members.number("ready_count", row.ready_count);
  members.number("ready_order", row.ready_order);
  members.flag("reduced", row.reduced);
  members.words("state", row.state);
  members.number("step", row.step);
  text += '}';
}

}  // namespace

void append_line(std::string& lines, int process, std::int64_t t_ms, const Gradient& row) {
  lines += "{\"body\":";
  append_body(lines, row);
  lines.append(",\"kind\":\"").append(Gradient::kKind);
  lines.append("\",\"process\":").append(std::to_string(process));
  lines.append(",\"t_ms\":").append(std::to_string(t_ms)) += "}\n";
}

}  // namespace harness
