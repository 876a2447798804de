#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <sys/statvfs.h>
#include <thread>
#include <unistd.h>

#include <sqlite3.h>

#include "harness/store/migrations.h"
#include "harness/store/schema.h"
#include "harness/store/sqlite.h"
#include "nsa/base/file.h"

namespace harness {
namespace {

// Another run writes its rows in milliseconds; longer than this means that something holds the file.
constexpr int kBusyMs = 10'000;

// The fields of SQLite's file header (https://www.sqlite.org/fileformat2.html, 1.3) that tell whose file it is.
constexpr std::size_t kHeaderBytes = 100;
constexpr std::size_t kVersionAt = 60;
constexpr std::size_t kApplicationAt = 68;

using Header = std::array<unsigned char, kHeaderBytes>;

std::int64_t big_endian(const Header& header, std::size_t at) {
  std::int64_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i) value = value * 256 + header.at(i);
  return value;
}

void check_owner(const std::string& path, std::int64_t application, std::int64_t version) {
  if (application != kApplicationId) throw nsa::Error(path + ": a database of another application");
  if (version <= kSchemaVersion) return;
  throw nsa::Error(path + ": found schema " + std::to_string(version) +
                   ", this program knows up to " + std::to_string(kSchemaVersion) +
                   ": use a newer nsa-harness");
}

// Only a missing or an empty file may become a database. Looked at before SQLite opens it, since even that may leave files
// beside it. The header of ours always tells: the tables are made before the file becomes a WAL database.
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
  Header header{};
  file.read(reinterpret_cast<char*>(header.data()), header.size());  // NOLINT: bytes as bytes
  const auto found = static_cast<std::size_t>(file.gcount());
  constexpr std::string_view kMagic{"SQLite format 3", 16};
  if (found == 0) return;
  if (found < kHeaderBytes || !std::equal(kMagic.begin(), kMagic.end(), header.begin())) {
    throw nsa::Error(path + ": not a database (not SQLite)");
  }
  check_owner(path, big_endian(header, kApplicationAt), big_endian(header, kVersionAt));
}

enum class Content { empty, older, ours };

// REQUIRES: inside a transaction, so that the three readings are of one moment.
Content check_content(SQLite::Database& database, const std::string& path) {
  const int application = database.execAndGet("PRAGMA application_id").getInt();
  const int version = database.execAndGet("PRAGMA user_version").getInt();
  const int tables = database.execAndGet("SELECT count(*) FROM sqlite_schema").getInt();
  if (application == 0 && version == 0 && tables == 0) return Content::empty;
  check_owner(path, application, version);
  return version < kSchemaVersion ? Content::older : Content::ours;
}

Content look_into(SQLite::Database& database, const std::string& path) {
  SQLite::Transaction reading(database);
  const Content content = check_content(database, path);
  reading.commit();
  return content;
}

// All or nothing; of two processes that open a new file at once, the second finds the first one's tables. The file becomes
// a WAL database only afterwards, so that its header always tells whose it is.
void make_schema(SQLite::Database& database, const std::string& path) {
  database.exec(kPageSize);
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
  if (error) nsa::throw_write_error("make the folder of", path, error.value());
}

// What of a database in WAL mode lies outside of its file.
std::uintmax_t bytes_of_log(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path + "-wal", error);
  return error ? 0 : bytes;
}

// "file:/a%3fb?immutable=1": the file as it lies there, which SQLite neither locks nor writes anything beside.
std::string immutable_uri(const std::string& path) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-";
  std::string uri = "file:";
  for (const char letter : std::filesystem::absolute(path).string()) {
    if (kPlain.find(letter) != std::string_view::npos) {
      uri += letter;
      continue;
    }
    const auto byte = static_cast<unsigned char>(letter);
    uri += {'%', "0123456789ABCDEF"[byte >> 4U], "0123456789ABCDEF"[byte & 15U]};
  }
  return uri + "?immutable=1";
}

// SQLite wants to write beside a database in WAL mode even to read it. Where it may not (another user's file, a mount that is
// read-only, a full disk) the file is read as it lies there; nobody can be writing what this user sees half-way, but what still
// lies in the log beside it is not seen, which is told.
SQLite::Database open_as_it_lies(const std::string& path, const Store::OnNote& on_note) {
  SQLite::Database database(immutable_uri(path), SQLite::OPEN_READONLY | SQLite::OPEN_URI);
  if (bytes_of_log(path) > 0 && on_note) {
    on_note(path + ": cannot be opened for sharing, so what lies in " + path +
            "-wal is not seen: the newest rows may be missing");
  }
  return database;
}

SQLite::Database open_to_read(const std::string& path, const Store::OnNote& on_note) {
  try {
    SQLite::Database database(path, SQLite::OPEN_READONLY, kBusyMs);
    (void)look_into(database, path);
    return database;
  } catch (const SQLite::Exception& error) {
    const int code = error.getErrorCode();
    if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY && code != SQLITE_IOERR &&
        code != SQLITE_FULL) {
      throw;
    }
    return open_as_it_lies(path, on_note);
  }
}

// No room for bytes, or for names of files.
bool is_disk_full(const std::string& path) {
  struct statvfs disk = {};
  const auto folder = std::filesystem::path(path).parent_path();
  if (statvfs(folder.empty() ? "." : folder.c_str(), &disk) != 0) return false;
  return disk.f_bavail == 0 || (disk.f_files > 0 && disk.f_favail == 0);
}

bool is_read_only(const std::string& path) {
  struct statvfs disk = {};
  const auto folder = std::filesystem::path(path).parent_path();
  if (statvfs(folder.empty() ? "." : folder.c_str(), &disk) != 0) return false;
  return (disk.f_flag & ST_RDONLY) != 0;
}

[[noreturn]] void throw_naming(const std::string& path, const SQLite::Exception& error) {
  const std::string text = path + ": " + error.what();
  switch (error.getErrorCode()) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: throw DamagedDatabase(text);
    case SQLITE_FULL:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_READONLY: throw nsa::NotRecorded(text);
    case SQLITE_IOERR: {
      const int what = error.getExtendedErrorCode();
      if (what == SQLITE_IOERR_READ || what == SQLITE_IOERR_SHORT_READ) throw DamagedDatabase(text);
      throw nsa::NotRecorded(text);
    }
    case SQLITE_CANTOPEN:  // it makes files beside the database
      if (is_disk_full(path)) throw nsa::NotRecorded(text + ": the disk is full");
      if (is_read_only(path)) throw nsa::NotRecorded(text + ": a file system that is read-only");
      throw nsa::Error(text);
    default: throw nsa::Error(text);
  }
}

}  // namespace

void throw_naming(const std::string& path) {
  const auto named = [&](const std::string& what) {
    return what.starts_with(path) ? what : path + ": " + what;
  };
  try {
    throw;
  } catch (const SQLite::Exception& error) {
    throw_naming(path, error);
  } catch (const nlohmann::json::exception& error) {
    throw DamagedDatabase(named(error.what()));
  } catch (const std::out_of_range& error) {  // a row that belongs to none
    throw DamagedDatabase(named(error.what()));
  } catch (const DamagedDatabase&) {
    throw;
  } catch (const nsa::NotRecorded& error) {
    throw nsa::NotRecorded(named(error.what()));
  } catch (const nsa::Error& error) {
    throw nsa::Error(named(error.what()));
  }
}

SQLite::Database open_database(const std::string& path, bool create, const Store::OnNote& on_note) {
  refuse_other_files(path, create);
  if (create) make_folder_of(path);
  return guarded(path, [&] {
    const int flags = SQLite::OPEN_READWRITE | (create ? SQLite::OPEN_CREATE : 0);
    SQLite::Database database(path, flags, kBusyMs);
    const Content content = look_into(database, path);
    if (content == Content::empty && !create) throw nsa::Error(path + ": an empty database");
    if (content == Content::empty) make_schema(database, path);
    if (content == Content::older) migrate(database, path, on_note);
    use_wal(database);
    database.exec("PRAGMA foreign_keys = ON");
    // With WAL: a killed process loses nothing; a machine that loses power may lose the last rows, never the file.
    database.exec("PRAGMA synchronous = NORMAL");
    return database;
  });
}

// Rows are found by indices: where one of those is damaged, rows are missed that are all right themselves. Of a large file only
// `db check` has the time.
void refuse_damaged_indices(SQLite::Database& database, const std::string& path) {
  constexpr std::int64_t kLargestBytes = std::int64_t{64} << 20;  // a second's work
  if (nsa::file_size(path) > kLargestBytes) return;
  SQLite::Transaction one_moment(database);
  const std::string found = database.execAndGet("PRAGMA integrity_check(1)").getString();
  if (found != "ok")
    throw DamagedDatabase(path + ": damaged: " + found + " (nsa-harness db check)");
}

SQLite::Database open_database_read_only(const std::string& path, const Store::OnNote& on_note) {
  refuse_other_files(path, false);
  return guarded(path, [&] {
    SQLite::Database database = open_to_read(path, on_note);
    const Content content = look_into(database, path);
    if (content == Content::empty) throw nsa::Error(path + ": an empty database");
    if (content == Content::ours) return database;
    if (access(path.c_str(), W_OK) != 0) {
      throw nsa::Error(path + ": found an older schema, wanted " + std::to_string(kSchemaVersion) +
                       ": whoever may write it must open it once (nsa-harness db check)");
    }
    { const SQLite::Database brought_up = open_database(path, false, on_note); }
    return open_to_read(path, on_note);
  });
}

std::unique_ptr<Store> Store::open(const std::string& path, bool create, const OnNote& on_note) {
  return std::make_unique<SqliteStore>(path, open_database(path, create, on_note));
}

std::unique_ptr<Store> Store::open_read_only(const std::string& path, const OnNote& on_note) {
  SQLite::Database database = open_database_read_only(path, on_note);
  guarded(path, [&] { refuse_damaged_indices(database, path); });
  return std::make_unique<SqliteStore>(path, std::move(database));
}

}  // namespace harness
