// Databases of older schemas, brought to kSchemaVersion step by step, each step one transaction: a killed process leaves the
// old file or the new one.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <string>

#include "harness/store/store.h"

namespace harness {

// REQUIRES: the database is ours and older. Safe when two processes do it at once. Throws: nsa::Error, SQLite::Exception.
void migrate(SQLite::Database& database, const std::string& path, const Store::OnNote& on_note);

}  // namespace harness
