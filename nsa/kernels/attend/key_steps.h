// The tiles of keys that a tile of rows passes through: source after source, each from the first key that its first query
// sees to the last that its last query sees.
#pragma once

#include "nsa/kernels/common/params.h"

namespace nsa::kernels {

struct KeyStep {
  int source = 0;
  int key = 0;  // first key
  int end = 0;  // keys from here on are nobody's in this tile
};

template <int kMost>
struct KeySteps {
  int begin[kMost];
  int end[kMost];
  int all = 0;

  // Sources [first_source, sources), ranges of queries at positions from .. last. `range_of(s)` gives the range of source s.
  template <int kKeys, class RangeOf>
  NSA_BOTH void plan(int first_source, int sources, int from, int last, const RangeOf& range_of) {
    all = 0;
    for (int s = 0; s < kMost; ++s) {
      begin[s] = 0;
      end[s] = 0;
      if (s < first_source || s >= sources) continue;
      const KeyRange& range = range_of(s);
      begin[s] = range.low(from);
      end[s] = range.high(last);
      if (end[s] > begin[s]) all += (end[s] - begin[s] + kKeys - 1) / kKeys;
    }
  }

  // REQUIRES: all > 0.
  NSA_BOTH KeyStep first() const { return following(-1); }
  // The next step; after the last one a step without keys.
  template <int kKeys>
  NSA_BOTH void advance(KeyStep& step) const {
    step.key += kKeys;
    if (step.key >= step.end) step = following(step.source);
  }

 private:
  NSA_BOTH KeyStep following(int source) const {
    KeyStep step{kMost, 0, 0};
    for (int s = kMost - 1; s >= 0; --s) {
      if (s > source && end[s] > begin[s]) step = {s, begin[s], end[s]};
    }
    return step;
  }
};

}  // namespace nsa::kernels
