// What processes write, line by line: what is an event of a worker is checked, handed to the watch and recorded under the number
// of the process that wrote it, whatever the line says; what is none is kept as rejected.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "harness/evidence/line_reader.h"
#include "harness/run/watch.h"

namespace harness {

class Intake {
 public:
  // `folder`: the case's, where the files lie that processes tell of.
  Intake(Watch& watch, EventSink& sink, std::string folder)
      : watch_(watch), sink_(sink), folder_(std::move(folder)) {}

  // The event, where it was one.
  std::optional<Event> take(int process, LineReader::Piece piece, std::string_view text);
  // How many lines of this process were rejected and not kept is told. Nothing comes after.
  void finish(int process);

 private:
  void record(Event event);
  // A process that does not hash what it writes (a kernel's, in Python): its file is hashed as it is when it is told.
  void hash_file_of(Event& event) const;
  void reject(int process, const char* why, std::string_view text);

  Watch& watch_;
  EventSink& sink_;
  std::string folder_;
  std::map<int, std::int64_t> rejected_;
};

}  // namespace harness
