#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>

#include <sqlite3.h>

#include "harness/core/store_schema.h"
#include "harness/core/store_sqlite.h"

namespace harness {
namespace {

// Another run writes a batch of events in milliseconds; longer than this means that something holds the file.
constexpr int kBusyMs = 10'000;

// SQLite would take a short or empty file for a new database: only a missing or an empty file may become one.
void refuse_other_files(const std::string& path, bool create) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    if (create) return;
    throw nsa::Error(path + ": no such database");
  }
  if (!std::filesystem::is_regular_file(status)) throw nsa::Error(path + ": not a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw nsa::Error(path + ": cannot read: " + std::strerror(errno));
  std::array<char, 16> head{};
  file.read(head.data(), head.size());
  constexpr std::string_view kMagic{"SQLite format 3", 16};
  const std::string_view found(head.data(), static_cast<std::size_t>(file.gcount()));
  if (!found.empty() && found != kMagic) throw nsa::Error(path + ": not a database (not SQLite)");
}

enum class Content { empty, ours };

Content check_content(SQLite::Database& database, const std::string& path) {
  const int application = database.execAndGet("PRAGMA application_id").getInt();
  const int version = database.execAndGet("PRAGMA user_version").getInt();
  const int tables = database.execAndGet("SELECT count(*) FROM sqlite_schema").getInt();
  if (application == 0 && version == 0 && tables == 0) return Content::empty;
  if (application != kApplicationId) throw nsa::Error(path + ": a database of another application");
  if (version > kSchemaVersion) {
    throw nsa::Error(path + ": found schema " + std::to_string(version) +
                     ", this program knows up to " + std::to_string(kSchemaVersion) +
                     ": use a newer nsa-harness");
  }
  return Content::ours;
}

// All or nothing; of two processes that open a new file at once, the second finds the first one's tables. The file becomes
// a WAL database only afterwards, so that its header always tells whose it is.
void make_schema(SQLite::Database& database, const std::string& path) {
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  if (check_content(database, path) == Content::empty) {
    database.exec(kSchema);
    database.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
    database.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
  }
  transaction.commit();
}

// Changing the journal needs the file for itself for a moment, and SQLite does not wait for that by itself.
void use_wal(SQLite::Database& database) {
  constexpr int kTries = kBusyMs / 50;
  for (int i = 0;; ++i) {
    try {
      (void)database.execAndGet("PRAGMA journal_mode = WAL").getString();
      return;
    } catch (const SQLite::Exception& error) {
      const int code = error.getErrorCode();
      if ((code != SQLITE_BUSY && code != SQLITE_LOCKED) || i >= kTries) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

void make_folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw nsa::Error(path + ": cannot make its folder: " + error.message());
}

}  // namespace

SQLite::Database open_database(const std::string& path, bool create) {
  refuse_other_files(path, create);
  if (create) make_folder_of(path);
  return guarded(path, [&] {
    const int flags = SQLite::OPEN_READWRITE | (create ? SQLite::OPEN_CREATE : 0);
    SQLite::Database database(path, flags, kBusyMs);
    const Content content = check_content(database, path);
    if (content == Content::empty && !create) throw nsa::Error(path + ": an empty database");
    if (content == Content::empty) make_schema(database, path);
    use_wal(database);
    database.exec("PRAGMA foreign_keys = ON");
    // With WAL: a killed process loses nothing; a machine that loses power may lose the last batches, never the file.
    database.exec("PRAGMA synchronous = NORMAL");
    return database;
  });
}

SQLite::Database open_database_read_only(const std::string& path) {
  refuse_other_files(path, false);
  return guarded(path, [&] {
    SQLite::Database database(path, SQLite::OPEN_READONLY, kBusyMs);
    if (check_content(database, path) == Content::empty)
      throw nsa::Error(path + ": an empty database");
    return database;
  });
}

}  // namespace harness
