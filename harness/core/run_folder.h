// The append-only record of one attempt at a case: events.jsonl, one event a line, and beside it events.jsonl.hash once the
// attempt is over ("HASH BYTES\n", the hash as nsa::hash_file gives it). The source of which the database is derived.
// Lines arrive whole: a batch is one write(). A file that ends in half a line is of a controller that was killed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "harness/core/event.h"
#include "harness/core/process.h"

namespace harness {

inline constexpr const char* kEventsFile = "events.jsonl";
inline constexpr const char* kEventsHashFile = "events.jsonl.hash";

class EventLog {
 public:
  // Throws: nsa::Error if the file is there already or cannot be made.
  explicit EventLog(const std::string& folder);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // Throws: nsa::Error (disk full, ...); nothing may be appended afterwards.
  void append(std::span<const Event> events);
  // Writes everything through to the disk and the hash file. Throws: nsa::Error.
  void finish();

 private:
  struct Hash;

  std::string folder_;
  Fd fd_;
  std::unique_ptr<Hash> hash_;
  std::int64_t bytes_ = 0;
};

enum class LogState {
  whole,
  unfinished,
  altered
};  // unfinished: no hash file; altered: it names another content

// Calls `on_event` for each whole line. Throws: nsa::Error with file:line at a line that is no event (a half line at the
// end is none, and is left out), or if there is no such file.
LogState read_event_log(const std::string& folder,
                        const std::function<void(const Event&)>& on_event);

}  // namespace harness
