// Damaged copies of a text, the same for the same seed: bits, bytes, pieces cut out, doubled or moved, numbers replaced by those
// that parsers stumble over, wherever they are.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

namespace fakes {

class Mutator {
 public:
  // Changes fall below `focus` bytes mostly: a header is small beside its data.
  Mutator(std::uint64_t seed, std::size_t focus) : random_(seed), focus_(focus) {}

  std::string operator()(std::string text) {
    const std::uint64_t changes = 1 + below(3);
    for (std::uint64_t i = 0; i < changes && !text.empty(); ++i) change(text);
    return text;
  }

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  std::size_t place(const std::string& text) {
    const std::size_t end = below(8) == 0 ? text.size() : std::min(focus_, text.size());
    return below(std::max<std::size_t>(1, end));
  }

  void change(std::string& text) {
    const std::size_t at = place(text);
    const std::size_t count = std::min<std::size_t>(1 + below(16), text.size() - at);
    switch (below(8)) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << below(8))); break;
      case 1: text[at] = static_cast<char>(below(256)); break;
      case 2: text.erase(at, count); break;
      case 3: text.insert(at, text.substr(place(text), count)); break;
      case 4: text.resize(at); break;
      case 5: replace_number(text, at); break;
      case 6: text.replace(at, count, token()); break;
      default: set_length(text);
    }
  }

  void replace_number(std::string& text, std::size_t at) {
    const std::size_t begin = text.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    std::size_t end = text.find_first_not_of("0123456789", begin);
    if (end == std::string::npos) end = text.size();
    static const std::array kNumbers = {"0",
                                        "-1",
                                        "1",
                                        "2",
                                        "1e9",
                                        "4294967296",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "1e400",
                                        "null",
                                        "0.5",
                                        "65537"};
    text.replace(begin, end - begin, kNumbers.at(below(kNumbers.size())));
  }

  const char* token() {
    static const std::array kTokens = {"{",
                                       "}",
                                       "[",
                                       "]",
                                       "[[[[[[",
                                       ",",
                                       ":",
                                       "\"",
                                       "\\u0000",
                                       "NaN",
                                       "true",
                                       "\"F64\"",
                                       "\"BOOL\"",
                                       "\"a\":{}",
                                       "\xff"};
    return kTokens.at(below(kTokens.size()));
  }

  // The eight bytes in front of a safetensors header.
  void set_length(std::string& text) {
    if (text.size() < 8) return;
    const std::array<std::uint64_t, 5> lengths = {
        0, below(text.size() + 8), ~std::uint64_t{0}, std::uint64_t{1} << 40U, text.size() - 8};
    std::memcpy(text.data(), &lengths.at(below(lengths.size())), 8);
  }

  std::mt19937_64 random_;
  std::size_t focus_;
};

}  // namespace fakes
