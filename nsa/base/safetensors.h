// Reader and writer of safetensors files: named row-major tensors and a map of strings.
// A SafetensorsFile owns a read-only mapping; its views point into it and die with it. The file
// must not shrink while it is mapped. Files are untrusted: everything is checked before it is used,
// and nothing is allocated by a size read from a file before it was compared with the file's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nsa {

enum class DType { f64, f32, f16, bf16, i64, i32, u8, boolean };

// The name in a file ("F64" ... "BOOL") and the bytes of one element.
std::string_view dtype_name(DType dtype);
std::int64_t dtype_bytes(DType dtype);
std::optional<DType> dtype_named(std::string_view name);
// Bytes of a tensor; nothing where that does not fit 63 bits or a dimension is negative.
std::optional<std::int64_t> tensor_bytes(DType dtype, const std::vector<std::int64_t>& shape);
std::string shape_text(const std::vector<std::int64_t>& shape);

// A tensor in somebody else's memory, little-endian, row-major, of any alignment. `where` says in
// messages what it is.
struct TensorView {
  DType dtype = DType::f64;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  std::string where;
};

struct SafetensorsIndex {
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> metadata;
};

// Reads a whole file's bytes. Pure; `file` is only named in messages. Strict: the data section is
// covered exactly once, no name comes twice, nothing unknown is passed over, and the header is at
// most kMaxSafetensorsHeaderBytes long. Throws Error: the file, what was found, what was wanted.
SafetensorsIndex parse_safetensors(std::span<const std::byte> bytes, const std::string& file);

inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 16u << 20u;

class SafetensorsFile {
 public:
  // Throws Error where the file cannot be read, or as parse_safetensors does.
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  [[nodiscard]] const std::map<std::string, TensorView>& tensors() const { return index_.tensors; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const {
    return index_.metadata;
  }
  [[nodiscard]] bool contains(const std::string& name) const {
    return index_.tensors.count(name) > 0;
  }
  // Throws Error where there is no such tensor.
  [[nodiscard]] const TensorView& at(const std::string& name) const;
  // From now on `bytes` are those of the tensor; the file on disk stays as it is. REQUIRES: as many as it has, which outlive this.
  void show(const std::string& name, std::span<const std::byte> bytes) {
    index_.tensors.at(name).bytes = bytes;
  }

 private:
  void unmap() noexcept;

  std::string path_;
  void* mapping_ = nullptr;
  std::size_t size_ = 0;
  SafetensorsIndex index_;
};

// Elements as doubles; exact. Every dtype but I64, whose values need not fit: that throws Error.
std::vector<double> to_doubles(const TensorView& view);
// Elements of an integer dtype (I64, I32, U8, BOOL). Throws Error for others, and for a BOOL that
// is neither 0 nor 1.
std::vector<std::int64_t> to_int64s(const TensorView& view);

struct TensorToWrite {
  std::string name;
  DType dtype = DType::f64;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// Writes the tensors in the order given, under a temporary name beside `path` that is renamed when
// all of it is on disk: `path` is the old file or the new one, never half of it. The header is
// padded to a multiple of 8 bytes. Throws Error where a tensor does not fit its shape, a name comes
// twice, or the file cannot be written.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace nsa
