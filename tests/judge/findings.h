// Findings for tests of causes: made from a key and a site, and what the search for causes makes of them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "harness/judge/find_cause.h"

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

}  // namespace judge_tests
