// How departures at several places become findings, and what the facts of all findings have in common.
#include "harness/checks/departures.h"

#include <gtest/gtest.h>

#include "tests/checks/planted.h"

namespace {

using harness::Finding;
using harness::checks::Departure;
using harness::checks::Departures;
using harness::checks::KnownLaw;

Departure wrong_at(int rank, int layer, std::int64_t step = 1) {
  Departure seen("NUMERIC.FORWARD", "plain");
  seen.site = harness::checks::site_of_layer(rank, layer);
  seen.site.step = step;
  seen.site.op = "attend_sel";
  return seen;
}

std::vector<Finding> found(std::vector<Departure> all,
                           Departures::Steps steps = Departures::Steps::apart) {
  Departures departures(steps);
  for (Departure& one : all) departures.add(std::move(one));
  return departures.findings();
}

TEST(Departures, ThatSayTheSameOfSeveralPlacesAreOneFinding) {
  const auto findings = found({wrong_at(0, 1), wrong_at(1, 3), wrong_at(0, 3)});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].site.ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(findings[0].site.layers, (std::vector<int>{1, 3}));
}

TEST(Departures, OfAnotherOperationStepOrLawAreOtherFindings) {
  Departure other_op = wrong_at(0, 1);
  other_op.site.op = "gate";
  Departure other_law = wrong_at(0, 1);
  other_law.laws = {{"top_left", ""}};
  EXPECT_EQ(found({wrong_at(0, 1), other_op, other_law, wrong_at(0, 1, 2)}).size(), 4U);
}

TEST(Departures, TheLargestErrorGivesTheFactsAndANanIsTheLargest) {
  Departure small = wrong_at(0, 0);
  small.error = 1.0;
  small.limit = 0.5;
  Departure none = wrong_at(1, 0);
  none.error = std::nan("");
  none.limit = 0.25;
  for (const auto& order : {std::vector{small, none}, std::vector{none, small}}) {
    const auto findings = found(order);
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings[0].facts.at("limit").get<double>(), 0.25);
  }
}

TEST(Departures, CountsAddUpListsUniteAndWhatAllAgreeInStays) {
  std::vector<Departure> all = {wrong_at(0, 0), wrong_at(0, 1)};
  for (int i = 0; i < 2; ++i) {
    Departure& one = all[static_cast<std::size_t>(i)];
    one.site.rows = {i, 5};
    one.site.detail["row_count"] = 2;
    one.facts["rows_in_all"] = 8;
    one.site.detail["groups"] = {i};
    one.facts["only"] = "dx";
    one.site.detail["call"] = i;
  }
  const auto findings = found(all);
  ASSERT_EQ(findings.size(), 1U);
  const Finding& one = findings[0];
  EXPECT_EQ(one.site.rows, (std::vector<int>{0, 1, 5}));
  EXPECT_EQ(one.site.detail.at("row_count"), 4);
  EXPECT_EQ(one.site.detail.at("share"), 0.25);
  EXPECT_EQ(one.site.detail.at("groups"), (std::vector<int>{0, 1}));
  EXPECT_EQ(one.facts.at("only"), "dx");
  EXPECT_FALSE(one.site.detail.contains("call")) << "one says 0, the other one 1";
}

TEST(Departures, OneThatIsWrongInAllHeadsNamesNoHead) {
  Departure some = wrong_at(0, 0);
  some.site.heads = {2};
  EXPECT_EQ(found({some})[0].site.heads, std::vector<int>{2});
  EXPECT_TRUE(found({some, wrong_at(0, 1)})[0].site.heads.empty());
}

TEST(Departures, TheFirstStepGivesThePlaceAndOnlyACommonLawIsNamed) {
  const KnownLaw a{"a", "about a"};
  const KnownLaw b{"b", "about b"};
  std::vector<Departure> all = {wrong_at(1, 2, 3), wrong_at(0, 1, 2)};
  for (Departure& one : all) one.by_law = false;
  all[0].laws = {a};
  all[1].laws = {a, b};
  auto findings = found(all, Departures::Steps::first);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].site.step, 2);
  EXPECT_EQ(findings[0].site.layers, std::vector<int>{1});
  EXPECT_EQ(findings[0].site.ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(findings[0].site.detail.at("steps"), (std::vector<int>{2, 3}));
  EXPECT_EQ(findings[0].site.detail.at("law"), "a");
  all[0].laws = {};
  findings = found(all, Departures::Steps::first);
  EXPECT_FALSE(findings[0].site.detail.contains("law"));
}

// ---- facts ----------------------------------------------------------------------------------------------------------------

TEST(Facts, OfEveryPlantedFindingAreOfTheirKind) {
  for (const fixtures::Said& said : fixtures::all_said()) {
    for (const Finding& finding : said.result.findings) {
      EXPECT_EQ(finding.facts.misfit(), "") << finding.code << "/" << finding.variant;
      EXPECT_EQ(finding.site.detail.misfit(), "") << finding.code << "/" << finding.variant;
    }
  }
}

TEST(Facts, AnotherKindIsSeen) {
  harness::Facts facts;
  facts["row_count"] = 3;
  EXPECT_EQ(facts.misfit(), "");
  facts["row_count"] = {1};
  EXPECT_EQ(facts.misfit(), "row_count: found [1], wanted a number");
}

}  // namespace
