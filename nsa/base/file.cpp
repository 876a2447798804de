#include "nsa/base/file.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace nsa {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

std::int64_t regular_size(const struct stat& status, const std::string& path) {
  if (!S_ISREG(status.st_mode)) {
    const char* found = S_ISDIR(status.st_mode) ? "a folder" : "a pipe, device or socket";
    throw Error(Location{path}, std::string("found ") + found + ", wanted a regular file");
  }
  return status.st_size;
}

std::string error_text(const std::string& doing, const std::string& path, int code) {
  return "cannot " + doing + " " + path + ": " + std::generic_category().message(code);
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_write_error("write", path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

std::string system_error_text(const std::string& doing, const std::string& path) {
  return error_text(doing, path, errno);
}

void throw_write_error(const std::string& doing, const std::string& path, int code) {
  const std::string text = error_text(doing, path, code);
  if (code == ENOSPC || code == EDQUOT || code == EFBIG || code == EIO) throw NotRecorded(text);
  throw Error(text);
}

std::int64_t file_size(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) throw Error(system_error_text("read", path));
  return regular_size(status, path);
}

void sync_folder(const std::string& folder) {
  const Descriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0) throw Error(system_error_text("open", folder));
  (void)::fsync(file.get());
}

void write_durably(const std::string& path, std::string_view content) {
  const std::string draft = path + ".part";
  constexpr mode_t kMode = 0644;
  try {
    const Descriptor file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
    if (file.get() < 0) throw_write_error("make", draft, errno);
    write_all(file.get(), content, draft);
    if (::fsync(file.get()) != 0) throw_write_error("write", draft, errno);
    if (std::rename(draft.c_str(), path.c_str()) != 0) throw_write_error("write", path, errno);
  } catch (const Error&) {
    ::unlink(draft.c_str());  // on a full disk half a file would only take room
    throw;
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  sync_folder(folder.empty() ? "." : folder);
}

std::string read_file(const std::string& path, std::int64_t max_bytes) {
  // O_NONBLOCK: opening a pipe without a writer must not wait; it means nothing for regular files.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw Error(system_error_text("read", path));
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) throw Error(system_error_text("read", path));
  const std::int64_t size = regular_size(status, path);
  const auto too_large = [&](std::int64_t found) {
    return Error(
        Location{path},
        "found " + std::to_string(found) + " bytes, wanted at most " + std::to_string(max_bytes));
  };
  if (size > max_bytes) throw too_large(size);
  std::string content(static_cast<std::size_t>(size) + 1, '\0');  // + 1: growth is seen
  std::size_t filled = 0;
  while (true) {
    if (filled == content.size()) {  // it grew, or is of a kind (/proc) that reports no size
      if (static_cast<std::int64_t>(filled) > max_bytes) throw too_large(max_bytes + 1);
      content.resize(content.size() * 2);
    }
    const ssize_t got = ::read(file.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(system_error_text("read", path));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  if (static_cast<std::int64_t>(filled) > max_bytes) throw too_large(max_bytes + 1);
  content.resize(filled);
  return content;
}

}  // namespace nsa
