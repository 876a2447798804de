#include "harness/evidence/step_ring.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace harness {
namespace {

std::string hex_of(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

// Another process writes the file: what it says of itself is not trusted, and it may be cut short at any time.
class RingFile {
 public:
  explicit RingFile(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;
  ~RingFile() {
    if (file_ >= 0) close(file_);
  }

  // By tensor, its fingerprint and state. Nothing where the step is not there.
  [[nodiscard]] std::optional<std::map<std::string, TensorDigest>> read(std::int64_t step,
                                                                        const std::string& of) {
    constexpr std::uint64_t kMost = 64U << 20U;
    std::array<std::uint64_t, 5> head{};
    if (!read_at(0, head.data(), sizeof(head)) || std::memcmp(head.data(), "NSARING1", 8) != 0)
      return std::nullopt;
    const auto [magic, first, slot_bytes, slots, json_bytes] = head;
    if (slots == 0 || slots > kMost || json_bytes > kMost || slot_bytes > kMost || first > kMost)
      return std::nullopt;
    std::string text(json_bytes, '\0');
    if (!read_at(sizeof(head), text.data(), text.size())) return std::nullopt;
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("classes") || !json["classes"].is_array())
      return std::nullopt;
    std::vector<std::uint64_t> slot(slot_bytes / sizeof(std::uint64_t));
    if (slot.size() < 2) return std::nullopt;
    const std::uint64_t at = first + static_cast<std::uint64_t>(step) % slots * slot_bytes;
    if (!read_at(at, slot.data(), slot.size() * sizeof(std::uint64_t))) return std::nullopt;
    if (slot[0] != static_cast<std::uint64_t>(step)) return std::nullopt;
    std::map<std::string, TensorDigest> tensors;
    std::size_t next = 2;
    for (const auto& one : json["classes"]) {
      if (!one.is_object() || !one.contains("tensors") || !one["tensors"].is_array())
        return std::nullopt;
      const bool is_wanted = one.value("name", nlohmann::json()) == of;
      for (const auto& name : one["tensors"]) {
        if (!name.is_string() || next + 3 > slot.size()) return std::nullopt;
        if (is_wanted) {
          TensorDigest row;
          row.step = step;
          row.of = of;
          row.tensor = name.get<std::string>();
          row.fingerprint = hex_of(slot[next]);
          const std::uint64_t flags = slot[next + 1];
          row.state = (flags & 4U) != 0   ? kUnread
                      : (flags & 2U) != 0 ? "nan"
                      : (flags & 1U) != 0 ? "inf"
                                          : "ok";
          tensors.emplace(row.tensor, row);
        }
        next += 3;
      }
    }
    // It may have been written over meanwhile.
    std::uint64_t again = 0;
    if (!read_at(at, &again, sizeof(again)) || again != slot[0]) return std::nullopt;
    return tensors;
  }

 private:
  [[nodiscard]] bool read_at(std::uint64_t offset, void* into, std::size_t bytes) const {
    return file_ >= 0 &&
           pread(file_, into, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }

  int file_;
};

}  // namespace

std::string ring_path(const std::string& case_folder, int rank) {
  return case_folder + "/rank_" + std::to_string(rank) + "/steps.ring";
}

std::optional<std::map<std::string, TensorDigest>> read_ring(const std::string& path,
                                                             std::int64_t step,
                                                             const std::string& of) {
  return RingFile(path).read(step, of);
}

}  // namespace harness
