// When two failures are the same one.
#include "harness/bundle/failure.h"

#include <gtest/gtest.h>

namespace harness {
namespace {

Cause cause(const std::string& code, std::vector<int> layers = {}, const std::string& op = "") {
  Cause one{code, {}, ""};
  one.site.layers = std::move(layers);
  one.site.op = op;
  return one;
}

TEST(Failure, OnlyInitiatingFindingsAreCauses) {
  Judgement judgement;
  for (const Role role : {Role::initiating, Role::cascade, Role::teardown, Role::unknown}) {
    Finding finding;
    finding.code = std::string("GRAD.") + name_of(role);
    finding.role = role;
    judgement.findings.push_back(finding);
  }
  ASSERT_EQ(causes_of(judgement).size(), 1U);
  EXPECT_EQ(causes_of(judgement).front().code, "GRAD.initiating");
}

TEST(Failure, NumbersMayDifferAndNamesMayNot) {
  EXPECT_TRUE(is_alike(cause("A.B", {3}, "norm"), cause("A.B", {0}, "norm")));
  EXPECT_FALSE(is_alike(cause("A.B", {3}, "norm"), cause("A.B", {3}, "mlp")));
  EXPECT_FALSE(is_alike(cause("A.B", {3}), cause("A.C", {3})));
  EXPECT_FALSE(is_alike(cause("A.B", {3}), cause("A.B"))) << "a layer was named";
  Cause ranked = cause("A.B");
  ranked.site.ranks = {1};
  EXPECT_FALSE(is_alike(ranked, cause("A.B")));
  Cause other = ranked;
  other.site.ranks = {0, 1};
  other.site.step = 2;
  other.site.rows = {3, 4};
  EXPECT_TRUE(is_alike(ranked, other));
  for (std::string Site::*name : {&Site::branch, &Site::param, &Site::phase}) {
    Cause named = ranked;
    named.site.*name = "x";
    EXPECT_FALSE(is_alike(ranked, named));
  }
}

TEST(Failure, WhereASlowRankWasAtTheEndOfItsTimeIsChance) {
  Cause in_backward = cause("SLOW.HOST");
  in_backward.site.phase = "backward";
  EXPECT_TRUE(is_alike(cause("SLOW.HOST", {0}), in_backward));
  EXPECT_FALSE(is_alike(cause("SLOW.DATA", {0}), cause("SLOW.DATA")));
  EXPECT_FALSE(is_alike(cause("SLOW.HOST"), cause("SLOW.DATA")));
}

TEST(Failure, AReplayIsTheSameAnotherOrNone) {
  const std::vector<Cause> expected = {cause("A.B", {3}), cause("C.D")};
  const Comparison same = compare_causes(expected, {cause("E.F"), cause("A.B", {1})});
  EXPECT_EQ(same.result, Replayed::same);
  EXPECT_FALSE(same.same_place);
  EXPECT_EQ(same.also, std::vector<std::string>{"E.F"});
  EXPECT_EQ(same.missing, std::vector<std::string>{"C.D"});
  EXPECT_TRUE(compare_causes(expected, expected).same_place);
  EXPECT_EQ(compare_causes(expected, {cause("C.D")}).result, Replayed::another);
  EXPECT_EQ(compare_causes(expected, {}).result, Replayed::none);
}

TEST(Failure, ASmallerCaseMayShowNothingElse) {
  const std::vector<Cause> expected = {cause("A.B", {3}), cause("C.D")};
  EXPECT_TRUE(fails_alike(expected, {cause("A.B", {0})}));
  EXPECT_TRUE(fails_alike(expected, {cause("A.B", {0}), cause("C.D", {1})}));
  EXPECT_FALSE(fails_alike(expected, {cause("A.B", {0}), cause("E.F")})) << "another one besides";
  EXPECT_FALSE(fails_alike(expected, {cause("C.D"), cause("A.B", {3})})) << "not the first";
  EXPECT_FALSE(fails_alike(expected, {}));
  EXPECT_FALSE(fails_alike({}, expected));
}

}  // namespace
}  // namespace harness
