#include "harness/run/record/run_folder.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
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

// The lines themselves where they still are: they are removed last.
void read_log(const std::string& folder,
              const std::string& noted,
              const std::function<void(std::string_view)>& on_piece) {
  const std::string path = folder + "/" + kEventsFile;
  if (!exists(path) && exists(folder + "/" + kPackedEventsFile)) {
    unpack_file(folder + "/" + kPackedEventsFile, noted_bytes(noted), on_piece);
    return;
  }
  nsa::read_pieces(path, on_piece);
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
  std::string lines;
  for (const Event& event : events) {
    lines += encode_event(event);
    lines += '\n';
  }
  try {
    nsa::write_all(fd_.get(), lines, folder_ + "/" + kEventsFile);
  } catch (
      const nsa::Error&) {  // half a line tells nothing; where it stays it is left out by readers
    (void)!ftruncate(fd_.get(), static_cast<off_t>(bytes_));
    throw;
  }
  hash_.update(lines);
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
  return hash_text(hash_.hex(), bytes_);
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
