// Reading a whole file of bounded size, or piece by piece. Only regular files: a pipe or a device named by mistake, or planted
// where a record was, is refused, never waited for. Writing a whole file (new_file.h) so that it survives a power cut.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "nsa/base/error.h"

namespace nsa {

// What was asked for is right, but what was to be kept could not be: the disk is full, fails or may only be
// read, another process holds the file, or nobody reads the pipe any more.
class NotRecorded : public Error {
 public:
  using Error::Error;
};

// What is there is not what was recorded, or does not belong to what it lies beside: altered, copied from elsewhere.
class NotAsRecorded : public Error {
 public:
  using Error::Error;
};

// Throws: Error naming the file: missing, not a regular file, unreadable, larger than `max_bytes`.
[[nodiscard]] std::string read_file(const std::string& path, std::int64_t max_bytes);

// Size in bytes. Throws: Error as above.
[[nodiscard]] std::int64_t file_size(const std::string& path);

// All of it, in pieces. Throws: Error as above, but for the size, or what `on_piece` throws.
void read_pieces(const std::string& path, const std::function<void(std::string_view)>& on_piece);

// Writes the file whole or not at all, through to the disk, and its name too: after a power cut the old file is there or the
// new one. Throws: Error, NotRecorded.
void write_durably(const std::string& path, std::string_view content, mode_t mode = 0644);

// Adds to the end of the file (open_to_add() in new_file.h). Throws: Error, NotRecorded.
void add_to_file(const std::string& path, std::string_view content);

// Writes the names in a folder through to the disk. A file system that cannot do this (some network ones) is no error.
// Throws: Error if the folder cannot be opened.
void sync_folder(const std::string& folder);

// That something could not be written. Throws: NotRecorded where that says so, else Error. `code`: as errno.
[[noreturn]] void throw_write_error(const std::string& doing, const std::string& path, int code);

// "cannot read PATH: No such file or directory", from errno.
[[nodiscard]] std::string system_error_text(const std::string& doing, const std::string& path);

}  // namespace nsa
