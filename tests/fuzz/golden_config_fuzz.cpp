// Any bytes as the configuration of a golden file, at every level: a valid configuration that goes to JSON and back unchanged,
// or an nsa::Error of bounded length. Built with clang++ and NSA_FUZZ.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "harness/golden/golden_config.h"
#include "nsa/base/error.h"

namespace {

constexpr std::size_t kLongestMessage = 4096;

void require(bool law) {
  if (!law) std::abort();
}

void read_at(harness::GoldenLevel level, const std::string& text) {
  try {
    const harness::GoldenConfig config = harness::parse_golden_config(text, level, "f");
    harness::GoldenConfig again =
        harness::parse_golden_config(harness::golden_config_text(config, level), level, "again");
    again.model.gate_hidden = config.model.gate_hidden;  // its default is written out
    if (level == harness::GoldenLevel::attention) again.model.mlp_ratio = config.model.mlp_ratio;
    require(again == config);
  } catch (const nsa::Error& error) {
    const std::string message = error.what();
    require(message.size() < kLongestMessage && !message.starts_with("again"));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto level :
       {harness::GoldenLevel::attention, harness::GoldenLevel::lm, harness::GoldenLevel::train}) {
    read_at(level, text);
  }
  return 0;
}
