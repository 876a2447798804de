// Two databases into one: of several machines that shared a night, or of one that wrote two files.
#pragma once

#include <string>

#include "harness/store/store.h"

namespace harness {

struct Merged {
  int added = 0;  // runs
  int known = 0;  // runs of a name that was there already: left as they are
};

// Adds the runs of `from` to `into`, with all their judgements and what was accepted from them on; all of them or none. Added runs get
// numbers behind those that are there, in their own order. `from` is only read. Throws: nsa::Error where `from` is no database of
// ours or of another schema: whoever opens it to write brings it up to date.
[[nodiscard]] Merged merge_database(const std::string& into,
                                    const std::string& from,
                                    const Store::OnNote& on_note);

}  // namespace harness
