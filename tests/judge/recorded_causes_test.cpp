// The findings of the shipped faults, as they were recorded: each has one cause, and two faults together have two.
#include <algorithm>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/judge/codes/codes.h"
#include "harness/judge/expectation.h"
#include "harness/judge/find_cause.h"
#include "tests/fakes/where.h"
#include "tests/judge/findings.h"

namespace {

using harness::Finding;
using harness::Role;
using judge_tests::initiating;
using judge_tests::judged;
using judge_tests::key_of;
using judge_tests::Random;

struct Recorded {
  std::string name;
  std::string code;  // that the case expects; "A or B"
  std::vector<Finding> findings;
};

// What the checks found in real runs of the shipped faults, before anybody gave roles.
std::vector<Recorded> recorded() {
  std::ifstream file(fakes::tree() + "/tests/judge/recorded/faults.jsonl");
  std::vector<Recorded> cases;
  for (std::string line; std::getline(file, line);) {
    const auto read = nlohmann::json::parse(line);
    Recorded one{read.at("case"), read.at("code"), {}};
    for (const auto& row : read.at("findings")) {
      Finding made;
      made.code = row.at("code");
      made.variant = row.at("variant");
      made.check = row.at("check");
      made.site = row.at("site").get<harness::Site>();
      if (row.at("status") == "hypothesis") made.status = harness::Status::hypothesis;
      if (row.at("teardown")) made.role = Role::teardown;
      one.findings.push_back(std::move(made));
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

std::string told(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& one : findings) {
    text += std::to_string(one.number) + " " + key_of(one) + " @ " + one.site.text() +
            (one.follows > 0 ? ", from " + std::to_string(one.follows) : "") + "\n";
  }
  return text;
}

TEST(RecordedFaults, EveryOneHasOneCauseAndTheRestFollowsFromIt) {
  const auto cases = recorded();
  EXPECT_GT(cases.size(), 70U);
  for (const Recorded& one : cases) {
    const auto causes = initiating(one.findings);
    ASSERT_EQ(causes.size(), 1U) << one.name << "\n" << told(judged(one.findings));
    EXPECT_TRUE(harness::code_matches(one.code, causes[0])) << one.name << " " << causes[0];
  }
}

const Finding& first_cause(const Recorded& one) {
  static std::map<std::string, Finding> known;
  const auto at = known.find(one.name);
  return at != known.end() ? at->second
                           : known.emplace(one.name, judged(one.findings).front()).first->second;
}

std::string kind_of(const Recorded& one) {
  std::ifstream file(fakes::tree() + "/scenarios/faults/" + one.name + ".yaml");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("kind: ", 0) == 0) return line;
  }
  ADD_FAILURE() << one.name << " is no fault scenario with a kind";
  return "";
}

// Faults that one case can hold, at different places: the same kind of case, none that ends a process before the other could act,
// and no two in one operation of one layer, where the second replaces the first.
bool can_act_together(const Recorded& a, const Recorded& b) {
  const Finding& of_a = first_cause(a);
  const Finding& of_b = first_cause(b);
  const auto ends_a_process = [](const Recorded& one) {
    return std::any_of(one.findings.begin(), one.findings.end(), [](const Finding& found) {
      return harness::find_code(found.code)->family == harness::Family::process;
    });
  };
  const bool same_place = of_a.site.layers == of_b.site.layers && of_a.site.op == of_b.site.op &&
                          of_a.site.branch == of_b.site.branch;
  return a.code != b.code && kind_of(a) == kind_of(b) && !ends_a_process(a) && !ends_a_process(b) &&
         !same_place;
}

// Both are named, as causes.
bool both_are_causes(const Recorded& a, const Recorded& b) {
  std::vector<Finding> findings = a.findings;
  findings.insert(findings.end(), b.findings.begin(), b.findings.end());
  const auto causes = initiating(findings);
  const auto named = [&](const std::string& code) {
    return std::any_of(causes.begin(), causes.end(), [&](const std::string& cause) {
      return harness::code_matches(code, cause);
    });
  };
  return named(a.code) && named(b.code);
}

// Two faults in one case: neither is told as what follows from the other, unless one hides in what the other one ties.
TEST(RecordedFaults, OfTwentyDrawnPairsOfIndependentFaultsEighteenAreTwoCauses) {
  const auto cases = recorded();
  constexpr int kDraws = 5;
  int both = 0;
  std::string lost;
  for (unsigned seed = 1; seed <= kDraws; ++seed) {
    Random random(seed);
    for (int pairs = 0; pairs < 20;) {
      const Recorded& a = cases[random.below(cases.size())];
      const Recorded& b = cases[random.below(cases.size())];
      if (!can_act_together(a, b)) continue;
      ++pairs;
      const bool two = both_are_causes(a, b);
      both += two ? 1 : 0;
      if (!two) lost += a.name + " and " + b.name + "; ";
    }
  }
  EXPECT_GE(both, 18 * kDraws) << "of " << 20 * kDraws << ": " << lost;
  RecordProperty("two_causes_of_100", both);
}

TEST(RecordedFaults, OfAllPairsOfIndependentFaultsMostAreTwoCauses) {
  const auto cases = recorded();
  int pairs = 0;
  int both = 0;
  for (std::size_t a = 0; a < cases.size(); ++a) {
    for (std::size_t b = a + 1; b < cases.size(); ++b) {
      if (!can_act_together(cases[a], cases[b])) continue;
      ++pairs;
      both += both_are_causes(cases[a], cases[b]) ? 1 : 0;
    }
  }
  EXPECT_GE(pairs, 800);
  EXPECT_GE(both, pairs * 93 / 100) << "of " << pairs;
  RecordProperty("pairs", pairs);
  RecordProperty("two_causes", both);
}

// What a known mistake explains follows from nothing before it.

}  // namespace
