// Any bytes as a safetensors file: tensors inside of the file, or an nsa::Error of bounded length, never anything else. Built
// with clang++ and NSA_FUZZ; seeds: tests/golden/.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "nsa/base/error.h"
#include "nsa/base/safetensors.h"

namespace {

constexpr std::size_t kLongestMessage = 4096;  // names and values in messages are bounded

void require(bool law) {
  if (!law) std::abort();
}

// Every byte belongs to one tensor, and every element can be asked for.
void look_at(const nsa::SafetensorsIndex& index, std::span<const std::byte> file) {
  std::size_t bytes = 0;
  for (const auto& [name, view] : index.tensors) {
    require(view.bytes.empty() ||
            (view.bytes.data() >= file.data() &&
             view.bytes.data() + view.bytes.size() <= file.data() + file.size()));
    bytes += view.bytes.size();
    try {
      (void)nsa::to_doubles(view);
      (void)nsa::to_int64s(view);
    } catch (const nsa::Error&) {  // a dtype that is no double or no integer
    }
  }
  require(bytes + 8 <= file.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    look_at(nsa::parse_safetensors(bytes, "some.safetensors"), bytes);
  } catch (const nsa::Error& error) {
    require(std::string(error.what()).size() < kLongestMessage);
  }
  return 0;
}
