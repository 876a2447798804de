// Any bytes as the file that torchrun lets a rank write when it fails: an exception within bounds, or none. Built with clang++ and
// NSA_FUZZ.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "harness/foreign/error_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto error = harness::error_in_file(text);
  if (error && (error->type.empty() || error->what.size() > 4096)) std::abort();
  (void)harness::error_file_of(text);
  return 0;
}
