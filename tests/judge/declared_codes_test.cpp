// What the checks declare in harness/checks/list.cpp, against what they say of the planted defects.
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "harness/checks/list.h"
#include "tests/checks/planted.h"

namespace {

TEST(DeclaredCodes, AreThoseThatACheckGivesAndNoOther) {
  std::map<std::string, std::set<std::string>> given;
  for (const auto& [planted, check, result] : fixtures::all_said()) {
    for (const auto& finding : result.findings) given[check].insert(finding.code);
    // A tie is no finding: a pass that is told.
    if (result.reason.find("SELECTION.TIE") != std::string::npos) {
      given[check].insert("SELECTION.TIE");
    }
  }
  for (const harness::Check& check : harness::all_checks()) {
    const std::set<std::string> declared(check.codes.begin(), check.codes.end());
    EXPECT_EQ(given[check.name], declared) << check.name;
    EXPECT_FALSE(check.about.empty());
  }
}

}  // namespace
