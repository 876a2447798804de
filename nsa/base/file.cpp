#include "nsa/base/file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "nsa/base/new_file.h"

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

}  // namespace

std::string system_error_text(const std::string& doing, const std::string& path) {
  return error_text(doing, path, errno);
}

void throw_write_error(const std::string& doing, const std::string& path, int code) {
  const std::string text = error_text(doing, path, code);
  switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO:
    case EROFS:
    case ENOLCK:
    case EPIPE: throw NotRecorded(text);
    default: throw Error(text);
  }
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

void write_durably(const std::string& path, std::string_view content, mode_t mode) {
  NewFile file(path, mode);
  file.write(content);
  file.keep();
}

void add_to_file(const std::string& path, std::string_view content) {
  const Descriptor file(open_to_add(path, O_WRONLY | O_APPEND));
  write_all(file.get(), content, path);
}

namespace {

// O_NONBLOCK: opening a pipe without a writer must not wait; it means nothing for regular files. `size`: its bytes.
int open_regular(const std::string& path, std::int64_t& size) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) throw Error(system_error_text("read", path));
  try {
    struct stat status = {};
    if (::fstat(fd, &status) != 0) throw Error(system_error_text("read", path));
    size = regular_size(status, path);
    return fd;
  } catch (...) {
    ::close(fd);
    throw;
  }
}

ssize_t read_some(const Descriptor& file, char* to, std::size_t most, const std::string& path) {
  while (true) {
    const ssize_t got = ::read(file.get(), to, most);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(system_error_text("read", path));
    return got;
  }
}

}  // namespace

void read_pieces(const std::string& path, const std::function<void(std::string_view)>& on_piece) {
  constexpr std::size_t kPieceBytes = std::size_t{1} << 17;
  std::int64_t size = 0;
  const Descriptor file(open_regular(path, size));
  std::vector<char> buffer(kPieceBytes);
  while (const ssize_t got = read_some(file, buffer.data(), buffer.size(), path)) {
    on_piece({buffer.data(), static_cast<std::size_t>(got)});
  }
}

std::string read_file(const std::string& path, std::int64_t max_bytes) {
  std::int64_t size = 0;
  const Descriptor file(open_regular(path, size));
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
    const ssize_t got = read_some(file, content.data() + filled, content.size() - filled, path);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  if (static_cast<std::int64_t>(filled) > max_bytes) throw too_large(max_bytes + 1);
  content.resize(filled);
  return content;
}

}  // namespace nsa
