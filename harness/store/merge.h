// Two databases into one: of several machines that shared a night, or of one that wrote two files.
#pragma once

#include <span>
#include <string>

#include "harness/store/store.h"

namespace harness {

struct Merged {
  int added = 0;  // runs
  int known = 0;  // runs of a name that was there already: left as they are
};

// Adds the runs of `from` to `into`, with all their judgements and what was accepted from them on. Added runs get numbers behind
// those that are there, in their own order. `from` is only read; of a damaged one nothing is added. Each run is a transaction of
// its own, so that another writer waits for one run and not for all: where it fails in between, the runs before are there, whole,
// and the error says how many; where nothing was added, no new file is left. Throws: nsa::Error where `from` is no database of ours
// or of another schema: whoever opens it to write brings it up to date.
[[nodiscard]] Merged merge_database(const std::string& into,
                                    const std::string& from,
                                    const Store::OnNote& on_note);

// A new database with these runs of `from` (their names), with all that merge_database() brings. Appears whole or not at all.
// Throws:
// nsa::Error as above, where `to` is there already, and where `from` has no run of such a name.
void export_runs(const std::string& from,
                 const std::string& to,
                 std::span<const std::string> names,
                 const Store::OnNote& on_note);

}  // namespace harness
