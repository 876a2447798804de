#include "harness/core/run_folder.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>
#include <xxhash.h>

#include "harness/core/line_reader.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"

namespace harness {
namespace {

[[noreturn]] void fail(const std::string& doing, const std::string& path) {
  throw nsa::Error(path + ": cannot " + doing + ": " + std::strerror(errno));
}

void write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string hash_text(const std::string& hash, std::int64_t bytes) {
  return hash + " " + std::to_string(bytes) + "\n";
}

LogState state_of(const std::string& folder) {
  const std::string path = folder + "/" + kEventsFile;
  std::ifstream noted(folder + "/" + kEventsHashFile);
  std::string line;
  if (!std::getline(noted, line)) return LogState::unfinished;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto bytes = static_cast<std::int64_t>(file.tellg());
  return line + "\n" == hash_text(nsa::hash_file(path), bytes) ? LogState::whole
                                                               : LogState::altered;
}

}  // namespace

struct EventLog::Hash {
  XXH3_state_t state;
  Hash() { XXH3_128bits_reset(&state); }
  void update(std::string_view bytes) { XXH3_128bits_update(&state, bytes.data(), bytes.size()); }
  [[nodiscard]] std::string hex() const {  // in nsa::hash_hex's order
    const XXH128_hash_t digest = XXH3_128bits_digest(&state);
    std::string text;
    for (const std::uint64_t half : {digest.high64, digest.low64}) {
      for (int shift = 60; shift >= 0; shift -= 4)
        text += "0123456789abcdef"[(half >> shift) & 15U];
    }
    return text;
  }
};

EventLog::EventLog(const std::string& folder) : folder_(folder), hash_(std::make_unique<Hash>()) {
  const std::string path = folder_ + "/" + kEventsFile;
  constexpr mode_t kMode = 0644;
  fd_ = Fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, kMode));
  if (!fd_.is_open()) fail("make", path);
}

EventLog::~EventLog() = default;

void EventLog::append(std::span<const Event> events) {
  std::string lines;
  for (const Event& event : events) {
    lines += encode_event(event);
    lines += '\n';
  }
  write_all(fd_.get(), lines, folder_ + "/" + kEventsFile);
  hash_->update(lines);
  bytes_ += static_cast<std::int64_t>(lines.size());
}

void EventLog::finish() {
  if (fsync(fd_.get()) != 0) fail("write through", folder_ + "/" + kEventsFile);
  fd_.reset();
  const std::string path = folder_ + "/" + kEventsHashFile;
  const std::string draft = path + ".part";
  constexpr mode_t kMode = 0644;
  const Fd file(open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!file.is_open()) fail("make", draft);
  write_all(file.get(), hash_text(hash_->hex(), bytes_), draft);
  if (fsync(file.get()) != 0) fail("write through", draft);
  if (rename(draft.c_str(), path.c_str()) != 0) fail("rename", draft);
}

LogState read_event_log(const std::string& folder,
                        const std::function<void(const Event&)>& on_event) {
  const std::string path = folder + "/" + kEventsFile;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("read", path);
  int line = 0;
  LineReader reader(kMaxEventBytes);
  const auto on_line = [&](LineReader::Piece piece, std::string_view text) {
    ++line;
    if (piece == LineReader::Piece::unfinished) return;
    if (piece == LineReader::Piece::too_long) throw nsa::Error({path, line}, "line too long");
    try {
      on_event(decode_event(text));
    } catch (const nsa::Error& error) {
      throw nsa::Error({path, line}, error.what());
    }
  };
  std::array<char, 1 << 16> buffer{};
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0) {
    reader.feed({buffer.data(), static_cast<std::size_t>(file.gcount())}, on_line);
  }
  reader.finish(on_line);
  return state_of(folder);
}

}  // namespace harness
