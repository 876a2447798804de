#include "harness/store/content.h"

#include "harness/evidence/packed.h"
#include "harness/store/sqlite.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"

namespace harness {
namespace {

using SQLite::Statement;

}  // namespace

std::int64_t content_row(SQLite::Database& database, const std::string& text) {
  const std::string hash = nsa::hash_hex(text);
  Statement query(database, "SELECT id FROM content WHERE hash = ?");
  query.bind(1, hash);
  if (query.executeStep()) return query.getColumn(0).getInt64();
  std::string body = pack(text);
  std::int64_t base = 0;
  const std::int64_t id =
      database.execAndGet("SELECT coalesce(min(id), 0) FROM content").getInt64();
  if (id > 0) {
    std::string after = pack(text, ContentReader(database).text(id));
    if (after.size() < body.size()) {
      body = std::move(after);
      base = id;
    }
  }
  Statement insert(database, "INSERT INTO content (hash, base, body) VALUES (?, nullif(?, 0), ?)");
  insert.bind(1, hash);
  insert.bind(2, base);
  bind_blob(insert, 3, body);
  insert.exec();
  return database.getLastInsertRowid();
}

ContentReader::ContentReader(SQLite::Database& database, const std::string& schema)
    : query_(database,
             "SELECT hash, coalesce(base, 0), body FROM " + schema + ".content WHERE id = ?") {}

ContentReader::Row ContentReader::row(std::int64_t id) {
  query_.reset();
  query_.bind(1, id);
  if (!query_.executeStep()) throw nsa::Error("content " + std::to_string(id) + " is not there");
  Row row{query_.getColumn(0).getString(), query_.getColumn(1).getInt64(), read_blob(query_, 2)};
  query_.reset();
  return row;
}

// What others are packed after is packed after none.
const std::string& ContentReader::base_text(std::int64_t id) {
  const auto [at, is_new] = bases_.try_emplace(id);
  if (is_new) at->second = unpack(row(id).body, kMaxUnpackedRow);
  return at->second;
}

std::string ContentReader::text(std::int64_t id) {
  const Row packed = row(id);
  const std::string base = packed.base == 0 ? "" : base_text(packed.base);
  std::string text = unpack(packed.body, kMaxUnpackedRow, base);
  if (nsa::hash_hex(text) == packed.hash) return text;
  throw DamagedDatabase("content " + std::to_string(id) + ": not what its hash says");
}

}  // namespace harness
