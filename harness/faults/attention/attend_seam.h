// The attend seams of the three branches take different arguments: what is put around any of them is generic.
#pragma once

#include <string>

#include "nsa/seams/seams.h"

namespace harness {

// Puts `wrap(inner)` in the place of `inner`, the seam of this name: attend_cmp, attend_sel, else attend_win.
template <typename Wrap>
void wrap_attend(nsa::AttentionSeams& seams, const std::string& seam, const Wrap& wrap) {
  if (seam == "attend_cmp") {
    seams.attend_cmp = wrap(seams.attend_cmp);
  } else if (seam == "attend_sel") {
    seams.attend_sel = wrap(seams.attend_sel);
  } else {
    seams.attend_win = wrap(seams.attend_win);
  }
}

}  // namespace harness
