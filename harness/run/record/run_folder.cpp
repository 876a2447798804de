#include "harness/run/record/run_folder.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "harness/evidence/line_reader.h"
#include "harness/evidence/packed.h"
#include "nsa/base/error.h"
#include "nsa/base/file.h"
#include "nsa/base/new_file.h"
#include "nsa/base/text.h"

namespace harness {
namespace {

std::string hash_text(const std::string& hash, std::uint64_t bytes) {
  return hash + " " + std::to_string(bytes);
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// What the hash file says, "" where there is none.
std::string noted_text(const std::string& folder) {
  constexpr std::int64_t kMostBytes = 256;
  const std::string path = folder + "/" + kEventsHashFile;
  if (!exists(path)) return "";
  try {
    const std::string text = nsa::read_file(path, kMostBytes);
    return text.substr(0, text.find('\n'));
  } catch (const nsa::Error& error) {
    throw nsa::NotAsRecorded(error.what());
  }
}

// How much the hash file promises: a packed log that holds more is none of ours.
std::uint64_t noted_bytes(const std::string& noted) {
  const std::size_t space = noted.find(' ');
  if (space == std::string::npos) return 0;
  const auto bytes = nsa::parse_int(noted.substr(space + 1));
  return bytes && *bytes >= 0 ? static_cast<std::uint64_t>(*bytes) : 0;
}

std::string lines_of(std::span<const Event> events) {
  std::string lines;
  for (const Event& event : events) {
    lines += encode_event(event);
    lines += '\n';
  }
  return lines;
}

constexpr const char* kAfter = "after";

// In place of what `path` holds behind some byte. Throws: nsa::Error where it does not say behind which one.
void read_with_tail(const std::string& path,
                    const std::string& tail,
                    const std::function<void(std::string_view)>& on_piece) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
  const std::string text = nsa::read_file(tail, kMostBytes);
  const std::size_t end = text.find('\n');
  const auto head = nlohmann::json::parse(text.substr(0, end), nullptr, false);
  if (end == std::string::npos || !head.is_object() || !head.contains(kAfter) ||
      !head[kAfter].is_number_unsigned()) {
    throw nsa::Error(tail + ": does not say where it begins");
  }
  auto left = head[kAfter].get<std::uint64_t>();
  nsa::read_pieces(path, [&](std::string_view piece) {
    const std::string_view counts = piece.substr(0, left);
    left -= counts.size();
    if (!counts.empty()) on_piece(counts);
  });
  if (left > 0) throw nsa::Error(path + ": shorter than " + tail + " says");
  on_piece(std::string_view(text).substr(end + 1));
}

// The lines themselves where they still are: they are removed last.
void read_log(const std::string& folder,
              const std::string& noted,
              const std::function<void(std::string_view)>& on_piece) {
  const std::string path = folder + "/" + kEventsFile;
  if (!exists(path) && exists(folder + "/" + kPackedEventsFile)) {
    unpack_file(folder + "/" + kPackedEventsFile, noted_bytes(noted), on_piece);
    return;
  }
  const std::string tail = folder + "/" + kEventsTailFile;
  exists(tail) ? read_with_tail(path, tail, on_piece) : nsa::read_pieces(path, on_piece);
}

}  // namespace

EventLog::EventLog(const std::string& folder) : folder_(folder) {
  const std::string path = folder_ + "/" + kEventsFile;
  if (has_event_log(folder)) throw nsa::Error(path + ": cannot make: it holds an attempt already");
  constexpr mode_t kMode = 0644;
  fd_ = Fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC, kMode));
  if (!fd_.is_open()) nsa::throw_write_error("make", path, errno);
}

void EventLog::append(std::span<const Event> events) {
  const std::string lines = lines_of(events);
  write(lines);
  hash_.update(lines);
  settled_bytes_ = bytes_;
}

void EventLog::append_open(std::span<const Event> events) {
  write(lines_of(events));
}

void EventLog::settle(std::span<const Event> settled, std::span<const Event> open) {
  const std::string stay = lines_of(settled);
  const std::string rest = lines_of(open);
  const std::string tail = folder_ + "/" + kEventsTailFile;
  nsa::NewFile file(tail);
  file.write(nlohmann::json{{kAfter, settled_bytes_}}.dump() + "\n" + stay + rest);
  file.keep(false);
  if (ftruncate(fd_.get(), static_cast<off_t>(settled_bytes_)) != 0)
    nsa::throw_write_error("shorten", folder_ + "/" + kEventsFile, errno);
  bytes_ = settled_bytes_;
  write(stay + rest);
  hash_.update(stay);
  settled_bytes_ += stay.size();
  std::error_code error;
  std::filesystem::remove(tail, error);
  if (error) throw nsa::Error(tail + ": cannot remove: " + error.message());
}

void EventLog::write(const std::string& lines) {
  try {
    nsa::write_all(fd_.get(), lines, folder_ + "/" + kEventsFile);
  } catch (
      const nsa::Error&) {  // half a line tells nothing; where it stays it is left out by readers
    (void)!ftruncate(fd_.get(), static_cast<off_t>(bytes_));
    throw;
  }
  bytes_ += lines.size();
}

void EventLog::finish() {
  const std::string path = folder_ + "/" + kEventsFile;
  if (fsync(fd_.get()) != 0) nsa::throw_write_error("write through", path, errno);
  fd_.reset();
  nsa::write_durably(folder_ + "/" + kEventsHashFile, hash() + "\n");
  pack_file(path, folder_ + "/" + kPackedEventsFile);
  std::error_code error;
  std::filesystem::remove(path, error);
  if (error) throw nsa::Error(path + ": cannot remove: " + error.message());
}

std::string EventLog::hash() const {
  return settled_bytes_ == bytes_ ? hash_text(hash_.hex(), bytes_) : hash_of_events(folder_);
}

bool has_event_log(const std::string& folder) {
  return exists(folder + "/" + kEventsFile) || exists(folder + "/" + kPackedEventsFile);
}

LogRead read_event_log(const std::string& folder,
                       const std::function<void(const Event&)>& on_event) {
  const std::string path = folder + "/" + kEventsFile;
  const std::string noted = noted_text(folder);
  int line = 0;
  bool is_whole = true;
  nsa::Hasher hash;
  std::uint64_t bytes = 0;
  LineReader reader(kMaxEventBytes);
  const auto on_line = [&](LineReader::Piece piece, std::string_view text) {
    ++line;
    is_whole = piece == LineReader::Piece::line;
    if (piece == LineReader::Piece::unfinished) return;
    if (piece == LineReader::Piece::too_long) throw nsa::Error({path, line}, "line too long");
    hash.update(text);
    hash.update("\n");
    bytes += text.size() + 1;
    try {
      on_event(decode_event(text));
    } catch (const nsa::Error& error) {
      throw nsa::Error({path, line}, error.what());
    }
  };
  try {
    read_log(folder, noted, [&](std::string_view piece) { reader.feed(piece, on_line); });
    reader.finish(on_line);
  } catch (const nsa::Error& error) {
    if (noted.empty()) throw;
    throw nsa::NotAsRecorded(error.what());
  }
  LogRead read{LogState::unfinished, hash_text(hash.hex(), bytes)};
  if (!noted.empty())
    read.state = is_whole && noted == read.hash ? LogState::whole : LogState::altered;
  return read;
}

std::string hash_of_events(const std::string& folder) {
  if (folder.empty() || !has_event_log(folder)) return "";
  try {
    return read_event_log(folder, [](const Event&) {}).hash;
  } catch (const nsa::Error&) {
    return "";
  }
}

}  // namespace harness
