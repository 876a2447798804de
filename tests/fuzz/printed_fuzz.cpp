// Any bytes as what a command printed: ranks and numbers within bounds, and no line is taken for more than it holds. Built with
// clang++ and NSA_FUZZ.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "harness/foreign/printed.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream stream(std::string(reinterpret_cast<const char*>(data), size));
  harness::Printed printed;
  harness::read_printed(stream, printed);
  for (const auto& one : printed.errors) {
    const bool in_bounds = !one.rank || (*one.rank >= 0 && *one.rank <= 1'000'000);
    if (!in_bounds || one.error.type.empty() || one.error.what.size() > 4096) std::abort();
  }
  return 0;
}
