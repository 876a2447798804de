// A hash over all rows of a run, so that whoever changes one of them is seen. It does not depend on the ids that rows have in this
// file: a run that is merged into another one keeps it. Not cryptographic: it finds accidents and careless hands.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <cstdint>
#include <string>
#include <vector>

namespace harness {

// Writes the hash of the rows as they are. REQUIRES: a transaction. Throws: SQLite::Exception.
void seal_run(SQLite::Database& database, std::int64_t run_id);
// Whether it has a hash: from its end on.
[[nodiscard]] bool is_sealed(SQLite::Database& database, std::int64_t run_id);

// Throws: DamagedDatabase naming `path` and the run where its rows are not those that were hashed. A run that has not ended is
// not looked at.
void refuse_altered_run(SQLite::Database& database, const std::string& path, std::int64_t run_id);

}  // namespace harness
