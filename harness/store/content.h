// Texts that many rows share, each kept once, packed (schema.h).
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <cstdint>
#include <map>
#include <string>

namespace harness {

// The row that holds this text, made when it is not there yet. REQUIRES: a transaction. Throws: SQLite::Exception, nsa::Error.
[[nodiscard]] std::int64_t content_row(SQLite::Database& database, const std::string& text);

// Reads texts of one database; what they are packed after is read once.
class ContentReader {
 public:
  // `schema`: main, or the name of a database that is attached.
  explicit ContentReader(SQLite::Database& database, const std::string& schema = "main");

  // Throws: nsa::Error where it is not what its hash says, SQLite::Exception.
  [[nodiscard]] std::string text(std::int64_t id);

 private:
  struct Row {
    std::string hash;
    std::int64_t base = 0;  // 0: none
    std::string body;
  };
  [[nodiscard]] Row row(std::int64_t id);
  [[nodiscard]] const std::string& base_text(std::int64_t id);

  SQLite::Statement query_;
  std::map<std::int64_t, std::string> bases_;
};

}  // namespace harness
