#include "nsa/base/new_file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nsa/base/file.h"

namespace nsa {
namespace {

constexpr mode_t kPermissions = 0777;

const char* name_of_kind(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISBLK(mode)) return "a disk";
  return S_ISSOCK(mode) ? "a socket" : "neither file, device nor pipe";
}

[[noreturn]] void refuse(const std::string& path, const std::string& found) {
  throw Error(Location{path}, "found " + found + ", wanted a file to write");
}

}  // namespace

std::string drawn_name(const std::string& path) {
  std::array<unsigned char, 8> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error(system_error_text("draw a name beside", path));
  }
  std::string name = ".nsa-";
  for (const unsigned char byte : bytes) {
    name += {"0123456789abcdef"[byte >> 4U], "0123456789abcdef"[byte & 15U]};
  }
  return (std::filesystem::path(path).parent_path() / name).string();
}

// O_NONBLOCK: opening a pipe that nobody reads must not wait. Afterwards a reader may be slower than the writer.
int open_to_add(const std::string& path, int flags) {
  constexpr mode_t kMode = 0644;
  constexpr int kAlways = O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
  const int fd = ::open(path.c_str(), flags | kAlways, kMode);
  if (fd < 0 && errno == ELOOP) refuse(path, "a symbolic link");
  if (fd < 0 && errno == ENXIO) refuse(path, "a socket, or a pipe that nobody reads");
  if (fd < 0) throw_write_error("write", path, errno);
  struct stat found = {};
  const bool known = ::fstat(fd, &found) == 0;
  if (!known || !(S_ISREG(found.st_mode) || S_ISCHR(found.st_mode) || S_ISFIFO(found.st_mode))) {
    ::close(fd);
    refuse(path, name_of_kind(found.st_mode));
  }
  (void)::fcntl(fd, F_SETFL, flags);
  return fd;
}

NewFile::NewFile(const std::string& path, mode_t mode) : path_(path) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno != ENOENT) throw_write_error("write", path, errno);
    open_draft(mode);
  } else if (S_ISREG(found.st_mode)) {
    open_draft(mode);
    struct stat mine = {};
    if (::fstat(fd_, &mine) == 0) (void)::fchmod(fd_, mine.st_mode & found.st_mode & kPermissions);
  } else if (S_ISCHR(found.st_mode) || S_ISFIFO(found.st_mode)) {
    open_device();
  } else {
    refuse(path, name_of_kind(found.st_mode));
  }
}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!draft_.empty()) ::unlink(draft_.c_str());  // on a full disk half a file would only take room
}

void NewFile::open_draft(mode_t mode) {
  draft_ = drawn_name(path_);
  fd_ = ::open(draft_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd_ >= 0) return;
  const int code = errno;
  draft_.clear();
  throw_write_error("write", path_, code);
}

void NewFile::open_device() {
  fd_ = open_to_add(path_, O_WRONLY);
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_write_error("write", path, n < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void NewFile::write(std::string_view bytes) {
  write_all(fd_, bytes, path_);
}

void NewFile::keep(bool through) {
  if (draft_.empty()) return;
  if (through && ::fsync(fd_) != 0) throw_write_error("write", path_, errno);
  if (std::rename(draft_.c_str(), path_.c_str()) != 0) throw_write_error("write", path_, errno);
  draft_.clear();
  if (!through) return;
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  sync_folder(folder.empty() ? "." : folder);
}

}  // namespace nsa
