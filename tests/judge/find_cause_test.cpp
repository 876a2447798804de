// Which finding is a cause and which follows: laws of the graph.
#include "harness/judge/find_cause.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/judge/cause_edges.h"
#include "harness/judge/codes/codes.h"
#include "harness/judge/patterns.h"
#include "harness/judge/wording/find_wording.h"
#include "tests/fakes/where.h"
#include "tests/judge/findings.h"

namespace {

using harness::Edge;
using harness::Finding;
using harness::Role;
using harness::Tie;
using judge_tests::finding;
using judge_tests::initiating;
using judge_tests::judged;
using judge_tests::key_of;
using judge_tests::Random;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

bool tied(const Finding& cause, const Finding& effect) {
  const auto edges = harness::all_edges();
  return std::any_of(edges.begin(), edges.end(), [&](const Edge& edge) {
    return harness::fits(edge.cause, cause) && harness::fits(edge.effect, effect) &&
           harness::ties(edge.tie, cause, effect);
  });
}

// ---- laws ------------------------------------------------------------------------------------------------------------------

TEST(Causes, NothingFollowsWithoutATie) {
  Random random(1);
  for (int i = 0; i < 400; ++i) {
    const auto findings = judged(random.several(8));
    for (const Finding& one : findings) {
      ASSERT_EQ(one.role == Role::cascade, one.follows > 0) << key_of(one);
      if (one.role != Role::cascade) continue;
      const Finding& cause = findings[static_cast<std::size_t>(one.follows - 1)];
      EXPECT_TRUE(tied(cause, one)) << key_of(cause) << " -> " << key_of(one);
      EXPECT_LT(cause.number, one.number);
      EXPECT_FALSE(one.tie.empty());
    }
  }
}

TEST(Causes, WhatNothingTiesIsInitiating) {
  Random random(2);
  for (int i = 0; i < 400; ++i) {
    const auto findings = judged(random.several(8));
    bool any = false;
    for (const Finding& one : findings) {
      if (one.role == Role::teardown) continue;
      any = true;
      const bool can_follow =
          std::any_of(findings.begin(), findings.end(), [&](const Finding& other) {
            return other.number != one.number && other.role != Role::teardown && tied(other, one);
          });
      if (!can_follow) {
        EXPECT_EQ(one.role, Role::initiating) << key_of(one);
      }
    }
    const bool begins = !findings.empty() && findings.front().role == Role::initiating;
    EXPECT_EQ(begins, any) << "a case with findings has a cause";
  }
}

TEST(Causes, TheOrderOfTheFindingsIsOfNoMatter) {
  Random random(3);
  for (int i = 0; i < 100; ++i) {
    std::vector<Finding> findings = random.several(8);
    const nlohmann::json before = judged(findings);
    std::shuffle(findings.begin(), findings.end(), random.generator());
    EXPECT_EQ(nlohmann::json(judged(findings)), before);
  }
}

TEST(Causes, NumbersCountFromOneAndTeardownComesLast) {
  Random random(4);
  for (int i = 0; i < 100; ++i) {
    const auto findings = judged(random.several(8));
    bool torn_down = false;
    for (std::size_t at = 0; at < findings.size(); ++at) {
      EXPECT_EQ(findings[at].number, static_cast<int>(at) + 1);
      EXPECT_NE(findings[at].role, Role::unknown);
      torn_down = torn_down || findings[at].role == Role::teardown;
      EXPECT_EQ(findings[at].role == Role::teardown, torn_down);
    }
  }
}

// At places that have nothing in common, every pair of codes is two causes, whatever their order in the table. What only the
// run as a whole shows (a loss, memory) has no place.
TEST(Causes, TheOrderOfCodesAloneMakesNothingAConsequence) {
  const char* here =
      R"({"layers":[1],"ranks":[0],"step":5,"sequence":9,"op":"rope","param":"W_Q"})";
  const char* there =
      R"({"layers":[0],"ranks":[1],"step":3,"sequence":2,"op":"gate","param":"out"})";
  for (const harness::Code& a : harness::all_codes()) {
    for (const harness::Code& b : harness::all_codes()) {
      for (const harness::Wording& words_of_a : harness::all_wordings()) {
        if (words_of_a.code != a.name || words_of_a.variant == "teardown") continue;
        Finding first = finding(std::string(a.name), here);
        first.variant = words_of_a.variant;
        const Finding second = finding(std::string(b.name), there);
        const auto edges = harness::all_edges();
        const bool whole_run = std::any_of(edges.begin(), edges.end(), [&](const Edge& edge) {
          const bool forth = harness::fits(edge.cause, first) && harness::fits(edge.effect, second);
          const bool back = harness::fits(edge.cause, second) && harness::fits(edge.effect, first);
          return edge.tie == Tie::whole_run && (forth || back);
        });
        // "There" is a lower layer in an earlier step: a later one may follow from it on other grounds.
        if (whole_run || tied(second, first)) continue;
        EXPECT_EQ(initiating({first, second}).size(), 2U) << key_of(first) << " " << b.name;
      }
    }
  }
}

TEST(Causes, EveryEdgeSpeaksOfFindingsThatThereAre) {
  for (const Edge& edge : harness::all_edges()) {
    bool cause = false;
    bool effect = false;
    for (const harness::Wording& words : harness::all_wordings()) {
      const auto fits = [&](std::string_view pattern) {
        Finding one;
        one.code = words.code;
        one.variant = words.variant;
        const std::size_t at = pattern.find('@');
        if (at != std::string_view::npos) one.site.op = pattern.substr(at + 1);
        const std::size_t part = pattern.find('#');
        if (part != std::string_view::npos) one.site.detail["parts"] = {pattern.substr(part + 1)};
        const std::size_t law = pattern.find('=');
        if (law != std::string_view::npos) one.site.detail["law"] = pattern.substr(law + 1);
        return harness::fits(pattern, one);
      };
      cause = cause || fits(edge.cause);
      effect = effect || fits(edge.effect);
    }
    EXPECT_TRUE(cause) << edge.cause;
    EXPECT_TRUE(effect) << edge.effect;
  }
}

// The text of all sources that give operations, laws and parts to findings.
std::string sources_of_findings() {
  std::string text;
  for (const char* room :
       {"harness/checks", "harness/scenario", "harness/worker", "oracles", "nsa"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(fakes::tree() + "/" + room)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
      std::ifstream file(entry.path());
      text.append(std::istreambuf_iterator<char>(file), {});
    }
  }
  return text;
}

// The operations, laws and parts of a pattern: "A.B@rope" -> rope, "A/v!x!y" -> x, y.
std::vector<std::string> words_of(std::string_view pattern) {
  std::vector<std::string> words;
  constexpr std::string_view kSigns = "@=#!+";
  for (std::size_t at = pattern.find_first_of(kSigns); at < pattern.size();) {
    const std::size_t end = std::min(pattern.find_first_of(kSigns, at + 1), pattern.size());
    if (pattern[at] != '+') words.emplace_back(pattern.substr(at + 1, end - at - 1));
    at = end;
  }
  return words;
}

// The test above takes them from the pattern itself: a misspelled one would fit there, and no finding.
TEST(Causes, EveryOperationLawAndPartOfAnEdgeIsGivenSomewhere) {
  const std::string sources = sources_of_findings();
  std::set<std::string> words;
  for (const Edge& edge : harness::all_edges()) {
    for (const auto& pattern : {edge.cause, edge.effect}) {
      for (const std::string& word : words_of(pattern)) words.insert(word);
    }
  }
  EXPECT_GT(words.size(), 20U);
  for (const std::string& word : words) {
    EXPECT_NE(sources.find('"' + word + '"'), std::string::npos) << word;
  }
  EXPECT_EQ(sources.find("\"ropes\""), std::string::npos);
}

TEST(Causes, WhatTheControllerDidItselfStays) {
  Finding teardown = finding("CRASH.SIGNAL/teardown", R"({"ranks":[0]})");
  teardown.role = Role::teardown;
  const auto findings = judged({teardown, finding("GRAD.MISSING/none")});
  EXPECT_EQ(findings[0].code, "GRAD.MISSING");
  EXPECT_EQ(findings[1].role, Role::teardown);
  EXPECT_EQ(findings[1].number, 2);
}

// ---- what is told first ----------------------------------------------------------------------------------------------------

TEST(Told, TheEarlierStepAndTheEarlierPlaceComeFirst) {
  EXPECT_THAT(initiating({finding("SCHEDULE.LR/rate", R"({"step":3})"),
                          finding("MASK.ABSENT/law", R"({"step":1,"layers":[1]})")}),
              ElementsAre("MASK.ABSENT", "SCHEDULE.LR"));
  EXPECT_THAT(initiating({finding("MASK.ABSENT/law", R"({"step":1,"layers":[1]})"),
                          finding("DATA.SOURCE/source", R"({"step":1,"ranks":[0]})")}),
              ElementsAre("DATA.SOURCE", "MASK.ABSENT"));
  EXPECT_THAT(initiating({finding("MASK.ABSENT/law", R"({"step":1,"layers":[1]})"),
                          finding("CRASH.SIGNAL/signal", R"({"step":7,"ranks":[1]})")}),
              ElementsAre("CRASH.SIGNAL", "MASK.ABSENT"));
}

TEST(Causes, OneFactInOtherWordsIsNoSecondCause) {
  const auto lost = finding("OPT.UPDATE_LOST/updates", R"({"ranks":[0,1],"step":1})");
  const auto zero = finding("SCHEDULE.LR/zero", R"({"ranks":[0,1],"detail":{"law":"zero"}})");
  const auto wrong = [](const std::string& law) {
    const std::string site = R"({"ranks":[0,1],"step":1,"detail":{"law":")" + law + R"("}})";
    return finding("OPT.UPDATE_WRONG/optimizer", site.c_str());
  };
  EXPECT_THAT(initiating({lost, wrong("p_kept_narrow")}), ElementsAre("OPT.UPDATE_LOST"));
  EXPECT_THAT(initiating({zero, wrong("update_lost")}), ElementsAre("SCHEDULE.LR"));
  EXPECT_THAT(initiating({lost, wrong("betas_swapped")}),
              UnorderedElementsAre("OPT.UPDATE_LOST", "OPT.UPDATE_WRONG"));
  EXPECT_THAT(initiating({zero, wrong("betas_swapped")}),
              UnorderedElementsAre("SCHEDULE.LR", "OPT.UPDATE_WRONG"));
}

// What a snapshot lost is told of the step after which the run goes on, and by the first step that it makes.
TEST(Causes, WhoWroteIntoTheBlocksAlsoWaits) {
  const auto mutated = finding(
      "ALIAS.MUTATED/written",
      R"({"layers":[0],"branch":"sel","op":"select","ranks":[0,1],"detail":{"written_by":"attend_sel"}})");
  const auto waits = [](const std::string& op) {
    const std::string site = R"({"layers":[0],"op":")" + op + R"(","ranks":[0,1]})";
    return finding("SLOW.SYNC_STORM/more_than_twin", site.c_str());
  };
  EXPECT_THAT(initiating({mutated, waits("attend_sel")}), ElementsAre("ALIAS.MUTATED"));
  EXPECT_THAT(initiating({mutated, waits("attend_win")}),
              UnorderedElementsAre("ALIAS.MUTATED", "SLOW.SYNC_STORM"));
}

}  // namespace
