// Reading a whole file of bounded size. Only regular files: a pipe or a device named by mistake is refused, never waited for.
// Writing a whole file so that it survives a power cut.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "nsa/base/error.h"

namespace nsa {

// What was asked for is right, but what was to be kept could not be: the disk is full or fails, or another process holds the file.
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

// Writes the file whole or not at all, through to the disk, and its name too: after a power cut the old file is there or the
// new one. Throws: Error, NotRecorded.
void write_durably(const std::string& path, std::string_view content);

// Writes the names in a folder through to the disk. A file system that cannot do this (some network ones) is no error.
// Throws: Error if the folder cannot be opened.
void sync_folder(const std::string& folder);

// That something could not be written. Throws: NotRecorded where the disk is full or fails, else Error. `code`: as errno.
[[noreturn]] void throw_write_error(const std::string& doing, const std::string& path, int code);

// "cannot read PATH: No such file or directory", from errno.
[[nodiscard]] std::string system_error_text(const std::string& doing, const std::string& path);

}  // namespace nsa
