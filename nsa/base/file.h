// Reading a whole file of bounded size. Only regular files: a pipe or a device named by mistake is refused, never waited for.
#pragma once

#include <cstdint>
#include <string>

#include "nsa/base/error.h"

namespace nsa {

// Throws: Error naming the file: missing, not a regular file, unreadable, larger than `max_bytes`.
[[nodiscard]] std::string read_file(const std::string& path, std::int64_t max_bytes);

// Size in bytes. Throws: Error as above.
[[nodiscard]] std::int64_t file_size(const std::string& path);

// "cannot read PATH: No such file or directory", from errno.
[[nodiscard]] std::string system_error_text(const std::string& doing, const std::string& path);

}  // namespace nsa
