// The table of codes is complete: what checks can give, what faults expect, and what the table says, are the same codes.
#include "harness/judge/codes/codes.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/checks/list.h"
#include "harness/judge/cause_edges.h"
#include "harness/judge/patterns.h"
#include "harness/judge/wording/find_wording.h"
#include "nsa/base/yaml.h"
#include "tests/fakes/where.h"

namespace {

using harness::Family;
using harness::Node;
using harness::Witness;
using harness::Wording;
using Names = std::set<std::string>;

// Codes that no shipped fault expects, and why.
const std::map<std::string, std::string> kExpectedByNobody = {
    {"SELECTION.TIE", "a note on a pass: no case can fail with it"},
    {"GRAD.OUTLIER", "of trainings of the user's own alone"}};

// Words that tell whose statement something is.
constexpr std::array<std::string_view, 5> kOwnWords = {
    "report", "message is", "refused", "its own", "counted no"};

Names given_by_checks() {
  Names given;
  for (const harness::Check& check : harness::all_checks()) {
    given.insert(check.codes.begin(), check.codes.end());
  }
  return given;
}

std::string expected_in(const std::string& file) {
  const nsa::YamlNode root = nsa::load_yaml(file);
  const nsa::YamlNode* code = nsa::find_yaml_path(root, "expect.code");
  return code == nullptr ? "" : code->scalar;
}

Names split(std::string text) {
  Names codes;
  for (std::size_t at = text.find(" or "); at != std::string::npos; at = text.find(" or ")) {
    codes.insert(text.substr(0, at));
    text.erase(0, at + 4);
  }
  codes.insert(text);
  return codes;
}

// By code: the files that expect it.
std::map<std::string, Names> expected_by_scenarios() {
  std::map<std::string, Names> expected;
  const std::string folder = fakes::tree() + "/scenarios";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string wanted = expected_in(entry.path());
    if (wanted.empty()) continue;
    for (const std::string& code : split(wanted)) {
      expected[code].insert(entry.path().filename());
    }
  }
  return expected;
}

Names of_table() {
  const std::vector<std::string> names = harness::code_names();
  return {names.begin(), names.end()};
}

TEST(Codes, EveryCodeOfACheckIsInTheTableAndNoOther) {
  EXPECT_EQ(of_table(), given_by_checks());
}

TEST(Codes, EveryCodeIsExpectedByAShippedScenarioOrSaysWhyNot) {
  const auto expected = expected_by_scenarios();
  for (const std::string& code : harness::code_names()) {
    EXPECT_NE(expected.count(code) > 0, kExpectedByNobody.count(code) > 0)
        << code
        << (expected.count(code) > 0 ? " is expected: it is no exception"
                                     : " is expected by no shipped scenario");
  }
}

TEST(Codes, EveryExpectedCodeIsKnown) {
  for (const auto& [code, files] : expected_by_scenarios()) {
    EXPECT_NE(harness::find_code(code), nullptr) << code << " in " << *files.begin();
  }
}

TEST(Codes, OutcomesAreThoseThatAFindingCanLeadTo) {
  using harness::Outcome;
  const std::map<std::string_view, Outcome> prefixes = {{"CRASH.", Outcome::crash},
                                                        {"HANG.", Outcome::hang},
                                                        {"SLOW.", Outcome::slow},
                                                        {"OOM.", Outcome::oom}};
  for (const harness::Code& code : harness::all_codes()) {
    Outcome wanted = code.name == "SELECTION.TIE" ? Outcome::pass : Outcome::fail;
    for (const auto& [prefix, outcome] : prefixes) {
      if (code.name.substr(0, prefix.size()) == prefix) wanted = outcome;
    }
    EXPECT_EQ(code.outcome, wanted) << code.name;
  }
}

TEST(Codes, ATextIsNeverMissingAndEndsWithAFullStop) {
  for (const harness::Code& code : harness::all_codes()) {
    for (const std::string_view text :
         {code.meaning, code.confirmed_by, code.next_action, code.witness}) {
      ASSERT_FALSE(text.empty()) << code.name;
      EXPECT_EQ(text.back(), '.') << code.name << ": " << text;
    }
  }
}

// Where nobody else attests a code, the finding says whose word it is.
TEST(Codes, WhatIsARanksOwnStatementIsToldAsOne) {
  std::set<std::string_view> told;
  for (const harness::Code& code : harness::all_codes()) {
    if (code.witness.find("own statement") == std::string_view::npos) continue;
    for (const harness::Wording& words : harness::all_wordings()) {
      const bool attested = words.variant == "applied" || words.variant == "precision" ||
                            words.variant.substr(0, 7) == "kernels";
      if (words.code != code.name || attested) continue;
      const bool said = std::any_of(kOwnWords.begin(), kOwnWords.end(), [&](const auto& own) {
        return words.statement.find(own) != std::string_view::npos;
      });
      EXPECT_TRUE(said) << code.name << "/" << words.variant << ": " << words.statement;
      told.insert(code.name);
    }
  }
  EXPECT_GE(told.size(), 5U);
}

// ---- where a code speaks, and how it knows ---------------------------------------------------------------------------------

std::string told_of(const Wording& words) {
  return std::string(words.code) + "/" + std::string(words.variant);
}

bool is_meant(std::string_view pattern, const Wording& words) {
  harness::Finding one;
  one.code = words.code;
  one.variant = words.variant;
  return harness::fits(pattern, one);
}

TEST(Codes, OfTheMachineAndOfMemorySpeakOfNothingElse) {
  for (const Wording& words : harness::all_wordings()) {
    const Family family = harness::find_code(words.code)->family;
    EXPECT_EQ(words.node == Node::machine, family == Family::machine) << told_of(words);
    EXPECT_EQ(words.node == Node::memory, family == Family::memory) << told_of(words);
  }
}

TEST(Codes, WhereACodeSpeaksAndHowItKnowsIsTrueOfOneOfItsVariants) {
  std::set<std::string_view> unlike;
  for (const Wording& words : harness::all_wordings()) unlike.insert(words.code);
  for (const Wording& words : harness::all_wordings()) {
    const harness::Code& code = *harness::find_code(words.code);
    if (words.node == code.node && words.known_from == code.known_from) unlike.erase(code.name);
  }
  EXPECT_THAT(unlike, testing::IsEmpty());
}

// Nothing else makes a peer complain.
TEST(Codes, AComplaintComesFromAProcessOrACollectiveAndFollowsFromWhatAPeerDid) {
  std::size_t complaints = 0;
  for (const Wording& words : harness::all_wordings()) {
    if (words.known_from != Witness::complaint) continue;
    ++complaints;
    EXPECT_TRUE(words.node == Node::process || words.node == Node::collective) << told_of(words);
    const auto edges = harness::all_edges();
    EXPECT_TRUE(std::any_of(edges.begin(), edges.end(), [&](const harness::Edge& edge) {
      return edge.tie == harness::Tie::peer && is_meant(edge.effect, words);
    })) << told_of(words);
  }
  EXPECT_GE(complaints, 3U);
}

TEST(Codes, WhatIsComparedWithTheTwinIsKnownEndToEnd) {
  std::size_t compared = 0;
  for (const Wording& words : harness::all_wordings()) {
    if (words.statement.find("twin") == std::string_view::npos) continue;
    ++compared;
    EXPECT_EQ(words.known_from, Witness::end_to_end) << told_of(words);
  }
  EXPECT_GE(compared, 5U);
}

// What any code of a family explains in later steps, or over the whole run.
TEST(Codes, WhatAWholeFamilyExplainsIsKnownEndToEnd) {
  std::size_t explained = 0;
  for (const harness::Edge& edge : harness::all_edges()) {
    const bool family = std::string_view(edge.cause).find('.') == std::string_view::npos;
    const bool far = edge.tie == harness::Tie::later_step || edge.tie == harness::Tie::whole_run;
    if (!family || !far) continue;
    for (const Wording& words : harness::all_wordings()) {
      if (!is_meant(edge.effect, words)) continue;
      ++explained;
      EXPECT_EQ(words.known_from, Witness::end_to_end) << edge.cause << " " << told_of(words);
    }
  }
  EXPECT_GE(explained, 5U);
}

TEST(Codes, OfEveryCodeButANoteSomethingCanBeTold) {
  Names told;
  for (const harness::Wording& words : harness::all_wordings()) {
    told.insert(std::string(words.code));
  }
  Names wanted = of_table();
  wanted.erase("SELECTION.TIE");
  EXPECT_EQ(told, wanted);
}

}  // namespace
