// Any bytes as a dump of PyTorch's flight recorder: read or refused, in bounded time and memory. Built with clang++ and NSA_FUZZ.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harness/foreign/flight_dump.h"
#include "nsa/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const harness::FlightDump dump =
        harness::read_flight_dump({reinterpret_cast<const char*>(data), size});
    for (const harness::FlightRecord& record : dump.records) {
      if (record.count < 0) std::abort();
    }
  } catch (const nsa::Error&) {
  }
  return 0;
}
