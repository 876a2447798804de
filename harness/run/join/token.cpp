#include "harness/run/join/token.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/random.h>

#include "nsa/base/error.h"

namespace harness {
namespace {

constexpr std::size_t kDigits = 64;  // 128 bits each way
constexpr std::string_view kHex = "0123456789abcdef";

}  // namespace

Token Token::drawn() {
  std::array<unsigned char, kDigits / 2> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw nsa::Error(std::string("cannot draw a token: ") + std::strerror(errno));
  }
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kHex[byte / 16];
    text += kHex[byte % 16];
  }
  return Token(std::move(text));
}

Token Token::of(std::string_view text) {
  const bool hex = std::all_of(
      text.begin(), text.end(), [](char c) { return kHex.find(c) != std::string_view::npos; });
  if (text.size() != kDigits || !hex) {
    throw nsa::Error("found a token that is none, wanted 64 hexadecimal digits");
  }
  return Token(std::string(text));
}

bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return different == 0;
}

}  // namespace harness
