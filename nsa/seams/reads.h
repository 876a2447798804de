// Tokens that a layer's queries read, per branch: a token counts once for each query, batch and group that read it. Counted
// from masks and gathered rows, where they are used, never from a formula.
#pragma once

#include <cstdint>

namespace nsa {

struct Reads {
  std::int64_t score = 0;  // compressed keys
  std::int64_t cmp = 0;    // keys with their values, here and below
  std::int64_t sel = 0;
  std::int64_t win = 0;

  Reads& operator+=(const Reads& other) {
    score += other.score;
    cmp += other.cmp;
    sel += other.sel;
    win += other.win;
    return *this;
  }
  bool operator==(const Reads&) const = default;
};

}  // namespace nsa
