// The append-only record of one attempt at a case: events.jsonl, one event a line. Once the attempt is over there are
// events.jsonl.hash ("HASH BYTES\n" of the lines, the hash as nsa::hash_hex gives it) and, instead of the lines themselves,
// events.jsonl.zst, which holds the same lines packed. The source of which the database is derived.
// Lines arrive whole: a batch is one write(). A file that ends in half a line is of a controller that was killed.
//
// In a record that is folded (harness/evidence/step_fold.h) the last lines are open: others may take their place. While these are
// written they lie in events.jsonl.tail too, behind a line {"after": BYTES}, and count from there on in place of all that
// events.jsonl holds behind so many bytes. So a controller that is killed meanwhile leaves a record with each line once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "harness/evidence/event.h"
#include "harness/run/processes/spawn_process.h"
#include "nsa/base/hash.h"

namespace harness {

inline constexpr const char* kCaseFile = "case.json";  // as the ranks got it
inline constexpr const char* kEventsFile = "events.jsonl";
inline constexpr const char* kEventsTailFile = "events.jsonl.tail";
inline constexpr const char* kPackedEventsFile = "events.jsonl.zst";
inline constexpr const char* kEventsHashFile = "events.jsonl.hash";
inline constexpr const char* kCommandOutFile =
    "command.out";  // what a command of the user's printed
inline constexpr const char* kCommandErrFile = "command.err";

class EventLog {
 public:
  // Throws: nsa::Error if the file is there already or cannot be made.
  explicit EventLog(const std::string& folder);
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Throws: nsa::Error (disk full, ...); nothing may be appended afterwards.
  void append(std::span<const Event> events);
  // The same; these may be replaced.
  void append_open(std::span<const Event> events);
  // In place of all open ones: first those that stay, then those that are open from now on. Throws: as append().
  void settle(std::span<const Event> settled, std::span<const Event> open);
  // Writes everything through to the disk, the hash file, and packs the lines. REQUIRES: none is open. Throws: nsa::Error; then the
  // lines are there.
  void finish();
  // Of the lines that are there so far, as LogRead has it.
  [[nodiscard]] std::string hash() const;

 private:
  void write(const std::string& lines);

  std::string folder_;
  Fd fd_;
  nsa::Hasher hash_;  // of what is settled
  std::uint64_t settled_bytes_ = 0;
  std::uint64_t bytes_ = 0;
};

enum class LogState {
  whole,
  unfinished,
  altered
};  // unfinished: no hash file; altered: it names another content

struct LogRead {
  LogState state = LogState::unfinished;
  std::string hash;  // "HASH BYTES" of the whole lines that were read
};

[[nodiscard]] bool has_event_log(const std::string& folder);

// As LogRead has it; "" where there is no log, or none that can be read.
[[nodiscard]] std::string hash_of_events(const std::string& folder);

// Calls `on_event` for each whole line. Throws: nsa::Error with file:line at a line that is no event (a half line at the
// end is none, and is left out), if there is no such file, or if what is packed cannot be unpacked; NotAsRecorded where a hash
// file says that it could be read once. Altered is known only at the end: whoever keeps what `on_event` gave must then give it up.
LogRead read_event_log(const std::string& folder,
                       const std::function<void(const Event&)>& on_event);

}  // namespace harness
