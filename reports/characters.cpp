#include "reports/characters.h"

namespace reports {

std::size_t allowed_bytes(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) {
    return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  }
  const std::size_t bytes = first >= 0xF0 && first < 0xF5   ? 4
                            : first >= 0xE0 && first < 0xF0 ? 3
                            : first >= 0xC2 && first < 0xE0 ? 2
                                                            : 0;
  if (bytes == 0 || at + bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xC0U) != 0x80U) return 0;
  }
  const auto second = static_cast<unsigned char>(text[at + 1]);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool longer_than_needed =
      (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool past_the_last = first == 0xF4 && second >= 0x90;
  const bool no_character =
      first == 0xEF && second == 0xBF && static_cast<unsigned char>(text[at + 2]) >= 0xBE;
  return surrogate || longer_than_needed || past_the_last || no_character ? 0 : bytes;
}

bool is_direction_override(std::string_view rest) {
  if (rest.size() < 3 || rest[0] != '\xE2') return false;
  const auto second = static_cast<unsigned char>(rest[1]);
  const auto third = static_cast<unsigned char>(rest[2]);
  return (second == 0x80 && third >= 0xAA && third <= 0xAE) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

}  // namespace reports
