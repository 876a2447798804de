// Care of the database's file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace harness {

// What is wrong with it, a line each; nothing when it is whole, and each run as it was written. Only reads, but of an older
// schema, which is brought up to date first. Throws: nsa::Error.
[[nodiscard]] std::vector<std::string> check_database(const std::string& path,
                                                      const Store::OnNote& on_note);

struct Sizes {
  std::int64_t before_bytes = 0;
  std::int64_t after_bytes = 0;
};
// Writes the file anew without its free pages. Needs as much room again while it works. Throws: nsa::Error.
Sizes vacuum_database(const std::string& path, const Store::OnNote& on_note);

}  // namespace harness
