// A dump of PyTorch's flight recorder: the file that a rank writes when it is asked, or when NCCL's watchdog gives up. Torch 2.4
// and newer write a pickle, which is read as data alone (pickled.h); JSON is read too.
#pragma once

#include <string>
#include <string_view>

#include "harness/evidence/flight.h"

namespace harness {

// Throws: nsa::Error saying what is wrong: the end is missing (a file that is still being written), a version that is not known, an
// entry without its number.
[[nodiscard]] FlightDump read_flight_dump(std::string_view bytes);

}  // namespace harness
