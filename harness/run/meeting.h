// Where the ranks of a case meet, as a worker is told on its command line.
#pragma once

#include <cstdint>
#include <string>

#include "harness/run/processes/spawn_process.h"

namespace harness {

inline constexpr const char* kLoopback = "127.0.0.1";

struct Meeting {
  int port = 0;                     // of rank 0's store
  std::string store = kLoopback;    // rank 0's address
  std::string address = kLoopback;  // this rank's own: peers connect to it
  std::int64_t origin_ms = 0;       // monotonic_ms() of this machine when the case began
};

// Adds what a worker needs to the end of its command line.
inline void add_meeting(const Meeting& meeting, ProcessRequest& request) {
  constexpr int kListenFd = 4;  // Process::spawn() puts the socket there
  const auto option = [&](const char* key, const std::string& value) {
    request.argv.insert(request.argv.end(), {key, value});
  };
  option("--port", std::to_string(meeting.port));
  if (!request.passed.empty()) option("--listen-fd", std::to_string(kListenFd));
  if (meeting.store != kLoopback) option("--store", meeting.store);
  if (meeting.address != kLoopback) option("--address", meeting.address);
  option("--clock-origin-ms", std::to_string(meeting.origin_ms));
}

}  // namespace harness
