#include "harness/judge/finding.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"

namespace {

using harness::CheckResult;
using harness::Finding;
using harness::Measured;
using harness::Outcome;
using harness::Real;
using harness::Site;
using nlohmann::json;

TEST(Finding, NamesReadBack) {
  for (int i = 0; i <= static_cast<int>(Outcome::xpass); ++i) {
    const auto outcome = static_cast<Outcome>(i);
    EXPECT_EQ(harness::outcome_from(harness::name_of(outcome)), outcome);
  }
  EXPECT_FALSE(harness::outcome_from("pass").has_value());
  EXPECT_FALSE(harness::outcome_from("").has_value());
}

Site full_site() {
  Site site;
  site.layers = {3, 4};
  site.branch = "sel";
  site.param = "W_K_sel";
  site.op = "select";
  site.heads = {0};
  site.rows = {15, 31};
  site.ranks = {1};
  site.step = 0;
  site.bucket = 0;
  site.sequence = 0;
  site.phase = "backward";
  site.detail["factor"] = 0.5;
  return site;
}

TEST(Finding, ATitleNamesThePlaceAndNoMeasure) {
  Site site;
  site.layers = {3};
  site.detail = {{"law", "top_left"},
                 {"groups", {1, 0}},
                 {"row_count", 2044},
                 {"share", 1.0},
                 {"kept_bytes", 5},
                 {"params", {"W_Q", "out"}}};
  EXPECT_EQ(harness::title_of("MASK.ALIGNMENT", site),
            "MASK.ALIGNMENT @ layer 3, groups 0-1, law top_left");
}

TEST(Finding, JsonReadsBackWhole) {
  Finding finding;
  finding.code = "GRAD.MISSING";
  finding.site = full_site();
  finding.statement = "a";
  finding.ruled_out = "b";
  finding.next_action = "c";
  finding.role = harness::Role::cascade;
  finding.status = harness::Status::hypothesis;
  CheckResult result;
  result.check = "gradients_arrived";
  result.verdict = harness::Verdict::fail;
  result.reason = "d";
  const double nan = std::numeric_limits<double>::quiet_NaN();
  result.measured = {
      {"worst", nan, Real(1.0)}, {"count", 3.0, std::nullopt}, {"big", INFINITY, -INFINITY}};
  result.findings = {finding};
  const std::string text = json(result).dump();
  const auto back = json::parse(text).get<CheckResult>();
  EXPECT_EQ(json(back).dump(), text);
  EXPECT_EQ(back.findings.at(0).site, full_site());
  EXPECT_EQ(back.findings[0].role, harness::Role::cascade);
  EXPECT_TRUE(std::isnan(back.measured.at(0).value));
  EXPECT_EQ(double{*back.measured[0].limit}, 1.0);
  EXPECT_FALSE(back.measured[1].limit.has_value());
  EXPECT_EQ(double{back.measured[2].value}, INFINITY);
  EXPECT_THAT(text, testing::HasSubstr("\"value\":\"NaN\""));
}

TEST(Finding, AnEmptySiteIsAnEmptyObject) {
  EXPECT_EQ(json(Site()).dump(), "{}");
  EXPECT_EQ(json::object().get<Site>(), Site());
  EXPECT_EQ(Site().text(), "");
}

TEST(Finding, RealRefusesOtherWords) {
  for (const json& wrong :
       {json("nan"), json("inf"), json("1"), json(nullptr), json(true), json::array()}) {
    EXPECT_NE(error_of([&] { (void)wrong.get<Real>(); }), "no error") << wrong;
  }
}

TEST(Finding, SiteInWords) {
  Site site;
  site.layers = {3};
  site.branch = "sel";
  site.ranks = {0, 1};
  EXPECT_EQ(site.text(), "layer 3, branch sel, ranks 0-1");
  Site rows;
  rows.rows = {31, 15, 47, 63};
  EXPECT_EQ(rows.text(), "rows ≡ 15 mod 16 (15..63)");
  rows.rows = {47, 63, 31};
  EXPECT_EQ(rows.text(), "rows ≡ 15 mod 16 (31..63)");
  rows.rows = {4, 5, 6};
  EXPECT_EQ(rows.text(), "rows 4-6");
  rows.rows = {4, 5, 6, 9};
  EXPECT_EQ(rows.text(), "rows 4-6, 9");
  rows.rows = {1, 2};
  EXPECT_EQ(rows.text(), "rows 1-2");
  rows.rows.clear();
  for (int i = 0; i < 100; ++i) rows.rows.push_back(i * i);
  EXPECT_EQ(rows.text(), "rows 0-1, 4, 9, 16, 25, 36, 49, 64 and 91 more");
  EXPECT_THAT(full_site().text(),
              testing::HasSubstr("step 0, bucket 0, sequence 0, phase backward, factor 0.5"));
}

TEST(Finding, ProcessNames) {
  EXPECT_EQ(harness::process_name(3), "rank 3");
  EXPECT_EQ(harness::process_name(harness::kTwin), "twin");
  EXPECT_EQ(harness::process_name(harness::kController), "controller");
}

}  // namespace
