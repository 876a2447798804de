// Any bytes as an archive, as the description of a bundle and as its case: a bundle that can be written again, or an
// nsa::Error of bounded length. Built with clang++ and NSA_FUZZ.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/bundle/archive.h"
#include "harness/bundle/bundle.h"
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
    const std::string message = error.what();
    require(message.size() < kLongestMessage && !message.starts_with("again"));
  }
}

void look_at(const std::vector<harness::Member>& members) {
  for (const auto& member : members) {
    require(!member.name.empty() && member.name.front() != '/' &&
            ("/" + member.name + "/").find("/../") == std::string::npos);
  }
}

// `says` and `the_case` behind hashes that fit.
void read_described(std::string says, const std::string& the_case) {
  nlohmann::json described = nlohmann::json::parse(says, nullptr, false);
  if (described.is_object()) {
    const auto noted = [](const std::string& content) {
      return nlohmann::json{{"bytes", content.size()}, {"hash", nsa::hash_hex(content)}};
    };
    described["members"] = {
        {"case.json", noted(the_case)}, {"scenario.yaml", noted("")}, {"findings.txt", noted("")}};
    says = described.dump();
  }
  const harness::Bundle bundle =
      harness::read_members({{"bundle.json", says},
                             {"case.json", the_case},
                             {"scenario.yaml", ""},
                             {"findings.txt", ""},
                             {"bundle.json.hash", nsa::hash_hex(says) + "\n"}},
                            "f");
  (void)harness::read_bundle(harness::write_bundle(bundle), "again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read([&] { look_at(harness::read_tar(text, kMembers, "f")); });
  read([&] { (void)harness::read_bundle(text, "f"); });
  const std::size_t half = text.find('\0') == std::string::npos ? size / 2 : text.find('\0');
  read([&] { read_described(text.substr(0, half), text.substr(half)); });
  return 0;
}
