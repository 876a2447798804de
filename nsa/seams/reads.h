// Tokens that a layer's queries read, per branch: a token counts once for each query, batch and group that read it. Counted
// from masks and gathered rows, where they are used, never from a formula. The kernels of a card count nothing.
#pragma once

#include <cstdint>

namespace nsa {

struct Reads {
  std::int64_t score = 0;  // compressed keys
  std::int64_t cmp = 0;    // keys with their values, here and below
  std::int64_t sel = 0;
  std::int64_t win = 0;
  bool partial = false;  // something ran that does not count what it reads

  Reads& operator+=(const Reads& other) {
    score += other.score;
    cmp += other.cmp;
    sel += other.sel;
    win += other.win;
    partial = partial || other.partial;
    return *this;
  }
  bool operator==(const Reads&) const = default;
};

}  // namespace nsa
