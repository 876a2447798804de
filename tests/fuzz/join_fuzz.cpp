// Any bytes as lines between an agent and its controller: refused with nsa::Error, or within their ranges. Built with clang++ and
// NSA_FUZZ.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harness/run/join/messages.h"
#include "nsa/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const harness::Message message = harness::message_of(line);
  try {
    if (message.word == "join") {
      const harness::Join join = harness::read_join(message.rest);
      if (join.rank < 0 || join.rank >= join.world || join.port > 65535) std::abort();
    } else if (message.word == "start") {
      if (harness::read_start(message.rest).argv.empty()) std::abort();
    } else if (message.word == "ended") {
      const harness::End end = harness::read_end(message.rest);
      if ((end.status.signal != 0) == (end.status.exit_code >= 0)) std::abort();
    } else if (message.word == "look") {
      (void)harness::read_look(message.rest);
    } else {
      (void)harness::read_number(message.rest, 1, 64);
    }
  } catch (const nsa::Error&) {
  }
  return 0;
}
