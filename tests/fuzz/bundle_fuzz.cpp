// Any bytes as an archive, as the description of a bundle and as its case: a bundle that can be written again, or an nsa::Error of
// bounded length. Built with clang++ and NSA_FUZZ.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/bundle/archive.h"
#include "harness/bundle/bundle.h"
#include "harness/evidence/packed.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"

namespace {

constexpr std::size_t kLongestMessage = 8192;
constexpr std::size_t kMembers = 16;

void require(bool law) {
  if (!law) std::abort();
}

template <typename Read>
void read(const Read& read_it) {
  try {
    read_it();
  } catch (const nsa::Error& error) {
    require(std::string(error.what()).size() < kLongestMessage);
  }
}

void read_members(const std::string& packed, std::size_t limit) {
  for (const auto& member : harness::read_archive(packed, {limit, kMembers}, "f")) {
    require(!member.name.empty() && member.name.front() != '/' &&
            ("/" + member.name + "/").find("/../") == std::string::npos);
  }
}

// `says` and `the_case` behind hashes that fit.
void read_described(std::string says, const std::string& the_case) {
  nlohmann::json described = nlohmann::json::parse(says, nullptr, false);
  if (described.is_object()) {
    described["members"] = {
        {"case.json", {{"bytes", the_case.size()}, {"hash", nsa::hash_hex(the_case)}}}};
    says = described.dump();
  }
  const std::string packed = harness::write_archive({{
      {"bundle.json", says},
      {"case.json", the_case},
      {"bundle.json.hash", nsa::hash_hex(says) + "\n"},
  }});
  (void)harness::write_bundle(harness::read_bundle(packed, "f"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read([&] { read_members(text, text.size() * 4 + 1024); });
  read([&] { read_members(harness::pack(text), text.size()); });
  read([&] { (void)harness::read_bundle(text, "f"); });
  const std::size_t half = text.find('\0') == std::string::npos ? size / 2 : text.find('\0');
  read([&] { read_described(text.substr(0, half), text.substr(half)); });
  return 0;
}
