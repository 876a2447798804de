// Old folders are dropped, and told.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "harness/store/store.h"

namespace harness::cli {

// "90d", as it was given for `option`. Throws: nsa::Error.
[[nodiscard]] std::int64_t days_in_ms(const std::string& option, const std::string& text);

struct Retention {
  std::int64_t keep_ms = 0;  // folders of runs that began longer ago are dropped
  int with_tensors = 0;      // so many of the newest runs keep their tensors
  std::string verb;          // only runs that this verb began; "": all
};

// Throws: nsa::Error from the store.
void prune_and_tell(Store& store, const Retention& retention, std::ostream& out);

}  // namespace harness::cli
