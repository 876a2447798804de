// Named contents in one file: a tar archive (POSIX ustar, regular files only), packed with Zstandard. `tar --zstd -xf
// FILE` opens it. The same members give the same bytes: no times, no owners.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace harness {

struct Member {
  std::string name;  // "case.json", "texts/0123.txt": up to 100 of a-z A-Z 0-9 . _ - and /
  std::string content;

  bool operator==(const Member&) const = default;
};

// REQUIRES: names as above, each once, none with a part "", "." or "..".
[[nodiscard]] std::string write_archive(std::span<const Member> members);

struct ArchiveLimits {
  std::size_t bytes = 0;  // of the archive once it is unpacked
  std::size_t members = 0;
};

// Of a stranger's bytes: nothing is kept beyond the limits, and nothing is written to the disk. Throws: nsa::Error,
// `where` in front of it: damaged, larger than the limits, a link or a folder, a name that leaves the archive or comes
// twice.
[[nodiscard]] std::vector<Member> read_archive(std::string_view packed,
                                               const ArchiveLimits& limits,
                                               const std::string& where);
// The same of the archive once it is unpacked.
[[nodiscard]] std::vector<Member> read_tar(std::string_view archive,
                                           std::size_t most_members,
                                           const std::string& where);

}  // namespace harness
