// Old folders are dropped, and told.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "harness/store/store.h"

namespace harness::cli {

// "90d", as it was given for `option`. Throws: nsa::Error.
[[nodiscard]] std::int64_t days_in_ms(const std::string& option, const std::string& text);

// Drops the folders of runs that began more than `keep_ms` ago, and the tensors of all but the newest `with_tensors` runs.
// Throws: nsa::Error from the store.
void prune_and_tell(Store& store, std::int64_t keep_ms, int with_tensors, std::ostream& out);

}  // namespace harness::cli
