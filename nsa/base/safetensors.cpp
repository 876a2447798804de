#include "nsa/base/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "nsa/base/error.h"
#include "nsa/base/strict_json.h"

namespace nsa {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;  // the header's length, in front of it
constexpr std::string_view kMetadataKey = "__metadata__";

std::string in_quotes(std::string_view name) {
  return "'" + shortened(name) + "'";
}

std::uint64_t header_length(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes) {
    throw Error(Location{file},
                "not a safetensors file: found " + std::to_string(bytes.size()) +
                    " bytes, wanted at least " + std::to_string(kLengthBytes));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  const std::uint64_t limit =
      std::min<std::uint64_t>(kMaxSafetensorsHeaderBytes, bytes.size() - kLengthBytes);
  if (length > limit) {
    throw Error(Location{file},
                "not a safetensors file: found a header of " + std::to_string(length) +
                    " bytes, wanted at most " + std::to_string(limit));
  }
  return length;
}

// A tensor's entry is an object in the header, its shape a list in that.
constexpr int kHeaderDepth = 3;
// Above every tensor that exists; numpy's limit too.
constexpr std::size_t kMaxDimensions = 64;

std::int64_t whole_number(const Json& value, const std::string& where) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    throw Error(where + ": found " + found_text(value) +
                ", wanted a whole number of at most 63 bits");
  }
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> whole_numbers(const Json& value, const std::string& where) {
  if (!value.is_array()) {
    throw Error(where + ": found " + found_text(value) + ", wanted a list");
  }
  if (value.size() > kMaxDimensions) {
    throw Error(where + ": found a list of " + std::to_string(value.size()) + ", wanted at most " +
                std::to_string(kMaxDimensions));
  }
  std::vector<std::int64_t> numbers;
  for (const Json& item : value) {
    numbers.push_back(whole_number(item, where));
  }
  return numbers;
}

DType known_dtype(const Json& value, const std::string& where) {
  const std::optional<DType> dtype =
      value.is_string() ? dtype_named(value.get<std::string>()) : std::nullopt;
  if (!dtype) {
    throw Error(where + ": dtype: found " + found_text(value) +
                ", wanted F64, F32, F16, BF16, I64, I32, U8 or BOOL");
  }
  return *dtype;
}

struct Entry {
  std::string name;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  TensorView view;
};

Entry parse_entry(const std::string& name, const Json& value, const std::string& file) {
  const std::string where = file + ": tensor " + in_quotes(name);
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    throw Error(where + ": wanted exactly dtype, shape and data_offsets");
  }
  Entry entry;
  entry.name = name;
  entry.view.where = where;
  entry.view.dtype = known_dtype(value["dtype"], where);
  entry.view.shape = whole_numbers(value["shape"], where + ": shape");
  const std::vector<std::int64_t> offsets =
      whole_numbers(value["data_offsets"], where + ": data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw Error(where + ": data_offsets: found " + shape_text(offsets) + ", wanted [begin,end]");
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const std::optional<std::int64_t> wanted = tensor_bytes(entry.view.dtype, entry.view.shape);
  if (!wanted || *wanted != entry.end - entry.begin) {
    throw Error(where + ": found " + std::to_string(entry.end - entry.begin) + " bytes, but " +
                std::string(dtype_name(entry.view.dtype)) + shape_text(entry.view.shape) + " has " +
                (wanted ? std::to_string(*wanted) : "more than 63 bits can count"));
  }
  return entry;
}

std::map<std::string, std::string> parse_metadata(const Json& value, const std::string& file) {
  const std::string where = file + ": " + std::string(kMetadataKey);
  if (!value.is_object()) {
    throw Error(where + ": wanted an object of strings");
  }
  std::map<std::string, std::string> metadata;
  for (const auto& [key, item] : value.items()) {
    if (!item.is_string()) {
      throw Error(where + ": " + in_quotes(key) + ": wanted a string");
    }
    metadata[key] = item.get<std::string>();
  }
  return metadata;
}

// Every byte of the data belongs to exactly one tensor.
void require_cover(std::vector<Entry>& entries, std::size_t data_bytes, const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::int64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected) {
      throw Error(entry.view.where + ": found data at byte " + std::to_string(entry.begin) +
                  ", wanted " + std::to_string(expected) + " (a gap or an overlap)");
    }
    expected = entry.end;
  }
  if (static_cast<std::uint64_t>(expected) != data_bytes) {
    throw Error(Location{file},
                "found " + std::to_string(data_bytes) + " bytes of data, but the tensors have " +
                    std::to_string(expected));
  }
}

}  // namespace

SafetensorsIndex parse_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  const std::uint64_t length = header_length(bytes, file);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + length);
  const Json header =
      parse_json_object({reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length},
                        {kMaxSafetensorsHeaderBytes, kHeaderDepth},
                        file + ": header");
  SafetensorsIndex index;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      index.metadata = parse_metadata(value, file);
    } else {
      entries.push_back(parse_entry(name, value, file));
    }
  }
  require_cover(entries, data.size(), file);
  for (Entry& entry : entries) {
    entry.view.bytes = data.subspan(static_cast<std::size_t>(entry.begin),
                                    static_cast<std::size_t>(entry.end - entry.begin));
    index.tensors.emplace(std::move(entry.name), std::move(entry.view));
  }
  return index;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path.string()) {
  const auto fail = [&](const std::string& what) {
    throw Error(Location{path_}, what + ": " + std::generic_category().message(errno));
  };
  // O_NONBLOCK: a pipe under that name must not make the reader wait.
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    fail("cannot open");
  }
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw Error(Location{path_}, "wanted a regular file");
  }
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ > 0) {  // an empty file cannot be mapped; the parser refuses it
    void* const mapping = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping != MAP_FAILED) {
      mapping_ = mapping;
    }
  }
  ::close(fd);
  if (size_ > 0 && mapping_ == nullptr) {
    fail("cannot map");
  }
  try {
    index_ = parse_safetensors({static_cast<const std::byte*>(mapping_), size_}, path_);
  } catch (...) {
    unmap();
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  unmap();
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      index_(std::exchange(other.index_, {})) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    mapping_ = std::exchange(other.mapping_, nullptr);
    size_ = std::exchange(other.size_, 0);
    index_ = std::exchange(other.index_, {});
  }
  return *this;
}

void SafetensorsFile::unmap() noexcept {
  if (mapping_ != nullptr) {
    ::munmap(mapping_, size_);
  }
  mapping_ = nullptr;
}

const TensorView& SafetensorsFile::at(const std::string& name) const {
  const auto found = index_.tensors.find(name);
  if (found == index_.tensors.end()) {
    throw Error(
        Location{path_},
        "no tensor " + in_quotes(name) + " among its " + std::to_string(index_.tensors.size()));
  }
  return found->second;
}

}  // namespace nsa
