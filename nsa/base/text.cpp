#include "nsa/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace nsa {
namespace {

// The longest names that are compared: input is untrusted and the distance is quadratic.
constexpr std::size_t kLongestName = 64;

const char* not_finite(double value) {
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "Infinity" : "-Infinity";
}

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_above(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
    two_above.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

// std::from_chars also knows "nan", "inf" and "infinity" in any case: only what YAML and to_text() write is a number here.
bool digits_only(std::string_view text) {
  return text.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
}

std::string_view without_plus(std::string_view text) {
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  return plus ? text.substr(1) : text;
}

}  // namespace

std::string to_text(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  std::array<char, 64> buffer = {};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string to_text(double value, int digits) {
  if (!std::isfinite(value)) return not_finite(value);
  std::array<char, 128> buffer = {};
  const int precision = std::clamp(digits, 1, std::numeric_limits<double>::max_digits10);
  const auto end = std::to_chars(buffer.data(),
                                 buffer.data() + buffer.size(),
                                 value,
                                 std::chars_format::general,
                                 precision)
                       .ptr;
  return {buffer.data(), end};
}

std::optional<double> parse_double(std::string_view text) {
  if (text == "NaN" || text == ".nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity" || text == ".inf") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity" || text == "-.inf") return -std::numeric_limits<double>::infinity();
  if (!digits_only(text)) return std::nullopt;
  text = without_plus(text);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  text = without_plus(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string nearest_name(std::string_view name,
                         std::span<const std::string> known,
                         std::size_t most_edits) {
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  if (name.size() > kLongestName) return best;
  for (const std::string& candidate : known) {
    if (candidate.size() > kLongestName) continue;
    const std::size_t distance = edit_distance(name, candidate);
    const bool near =
        3 * distance <= std::max(name.size(), candidate.size()) && distance <= most_edits;
    if (near && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::string shell_text(std::span<const std::string> words) {
  constexpr const char* kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=:,+@%";
  std::vector<std::string> texts;
  for (const std::string& word : words) {
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      texts.push_back(word);
      continue;
    }
    std::string quoted = "'";
    for (const char letter : word) {
      quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    }
    texts.push_back(quoted + "'");
  }
  return join(texts, " ");
}

std::string ranges_text(std::span<const int> ascending) {
  std::string text;
  for (std::size_t first = 0; first < ascending.size();) {
    std::size_t last = first;
    while (last + 1 < ascending.size() && ascending[last + 1] - 1 == ascending[last]) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(ascending[first]);
    if (last > first) text += "-" + std::to_string(ascending[last]);
    first = last + 1;
  }
  return text;
}

namespace {

// Bytes of the character that begins there, 0 where none does.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const std::size_t length = byte < 0x80U                    ? 1
                             : byte >= 0xc2U && byte < 0xe0U ? 2
                             : byte >= 0xe0U && byte < 0xf0U ? 3
                             : byte >= 0xf0U && byte < 0xf5U ? 4
                                                             : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0U) != 0x80U) return 0;
  }
  return length;
}

bool is_steering(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20U || byte(0) == 0x7fU;
  if (character.size() == 2) {
    return (byte(0) == 0xc2U && byte(1) < 0xa0U) || (byte(0) == 0xd8U && byte(1) == 0x9cU);
  }
  if (character.size() != 3 || byte(0) != 0xe2U) return false;
  const bool marks = byte(1) == 0x80U && (byte(2) == 0x8eU || byte(2) == 0x8fU ||
                                          (byte(2) >= 0xa8U && byte(2) <= 0xaeU));
  return marks || (byte(1) == 0x81U && byte(2) >= 0xa6U && byte(2) <= 0xa9U);
}

}  // namespace

std::string without_steering(std::string_view text, std::string_view kept) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    if (length == 0) {
      const auto byte = static_cast<unsigned char>(text[at]);
      result += byte < 0xa0U ? ' ' : text[at];
      ++at;
      continue;
    }
    const std::string_view character = text.substr(at, length);
    const bool stays = length == 1 && kept.find(character[0]) != std::string_view::npos;
    if (!stays && is_steering(character)) {
      result += ' ';
    } else {
      result += character;
    }
    at += length;
  }
  return result;
}

}  // namespace nsa
