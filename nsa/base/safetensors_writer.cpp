#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

#include "nsa/base/error.h"
#include "nsa/base/safetensors_layout.h"

namespace nsa {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(Location{path}, what + ": " + std::generic_category().message(errno));
}

void require_fitting(const TensorToWrite& tensor, const std::string& path) {
  const std::optional<std::int64_t> wanted = tensor_bytes(tensor.dtype, tensor.shape);
  if (!wanted || static_cast<std::uint64_t>(*wanted) != tensor.bytes.size()) {
    throw Error(path + ": tensor '" + tensor.name + "': " + std::to_string(tensor.bytes.size()) +
                " bytes do not fit " + std::string(dtype_name(tensor.dtype)) +
                shape_text(tensor.shape));
  }
}

// No other writer alive uses it. One that was killed may have left it: truncated, not refused.
std::string unique_name(const std::string& target) {
  static std::atomic<int> count = 0;
  return target + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(++count);
}

// A file that disappears unless keep_as() is called.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target)
      : path_(unique_name(target)),
        fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (fd_ < 0) {
      fail(path_, "cannot create");
    }
  }
  ~TemporaryFile() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
    if (!kept_) {
      ::unlink(path_.c_str());
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written < 0) {
        fail(path_, "cannot write");
      }
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void keep_as(const std::string& target) {
    if (::fsync(fd_) != 0) {
      fail(path_, "cannot sync");
    }
    if (::rename(path_.c_str(), target.c_str()) != 0) {
      fail(target, "cannot rename to");
    }
    kept_ = true;
  }

 private:
  std::string path_;
  int fd_ = -1;
  bool kept_ = false;
};

}  // namespace

void write_safetensors(const std::filesystem::path& path,
                       std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorPlan> plan;
  plan.reserve(tensors.size());
  for (const TensorToWrite& tensor : tensors) {
    require_fitting(tensor, path.string());
    plan.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  const SafetensorsLayout layout = lay_out_safetensors(plan, metadata, path.string());
  TemporaryFile file(path.string());
  file.write(std::as_bytes(std::span(layout.head)));
  for (const TensorToWrite& tensor : tensors) {
    file.write(tensor.bytes);
  }
  file.keep_as(path.string());
}

}  // namespace nsa
