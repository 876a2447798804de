// Findings for tests of causes: made from a key and a site, and what the search for causes makes of them.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "harness/judge/find_cause.h"
#include "harness/judge/wording/find_wording.h"

namespace judge_tests {

using harness::Finding;
using harness::Role;

inline Finding finding(const std::string& key, const char* site = "{}") {
  Finding made;
  const std::size_t slash = key.find('/');
  made.code = key.substr(0, slash);
  made.variant = slash == std::string::npos ? "" : key.substr(slash + 1);
  made.site = nlohmann::json::parse(site).get<harness::Site>();
  return made;
}

inline std::string key_of(const Finding& of) {
  return of.code + "/" + of.variant;
}

inline std::vector<Finding> judged(std::vector<Finding> findings) {
  harness::assign_roles(findings);
  std::sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return a.number < b.number;
  });
  return findings;
}

inline std::vector<std::string> initiating(const std::vector<Finding>& findings) {
  std::vector<std::string> codes;
  for (const Finding& one : judged(findings)) {
    if (one.role == Role::initiating) codes.push_back(one.code);
  }
  return codes;
}

// One finding of any situation that has words, at any place.
class Random {
 public:
  explicit Random(unsigned seed) : generator_(seed) {}

  Finding any() {
    const auto words = harness::all_wordings();
    const harness::Wording& drawn = words[below(words.size())];
    Finding made;
    made.code = drawn.code;
    made.variant = drawn.variant;
    if (chance()) made.site.layers = {static_cast<int>(below(4))};
    if (chance()) made.site.ranks = {static_cast<int>(below(3))};
    if (chance()) made.site.step = static_cast<std::int64_t>(1 + below(3));
    if (chance()) made.site.sequence = static_cast<std::int64_t>(below(4));
    constexpr std::array kOps = {"rope", "score", "select", "attend_sel", "attend_win", "gate"};
    if (chance()) made.site.op = kOps[below(kOps.size())];
    constexpr std::array kParams = {"W_Q", "W_K_sel", "W_V_win"};
    if (chance()) made.site.param = kParams[below(kParams.size())];
    made.facts["point"] = ++serial_;
    if (made.variant == "teardown") made.role = Role::teardown;
    return made;
  }

  std::vector<Finding> several(std::size_t most) {
    std::vector<Finding> made;
    for (std::size_t count = 1 + below(most); count > 0; --count) made.push_back(any());
    return made;
  }

  std::size_t below(std::size_t end) { return generator_() % end; }
  bool chance() { return below(2) == 0; }
  std::mt19937& generator() { return generator_; }

 private:
  std::mt19937 generator_;
  int serial_ = 0;
};

}  // namespace judge_tests
