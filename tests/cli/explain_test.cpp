// The verb explain: every code, one code, the findings of a stored case; and docs/codes.md, which it prints.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/judge/codes/codes.h"
#include "tests/cli/program.h"
#include "tests/fakes/where.h"

namespace {

using fakes::ProgramResult;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

class ExplainTest : public testing::Test {
 protected:
  ExplainTest() {
    std::filesystem::copy(fakes::tree() + "/scenarios",
                          program_.share() + "/scenarios",
                          std::filesystem::copy_options::recursive);
  }

  [[nodiscard]] std::string out(const std::vector<std::string>& words) const {
    const ProgramResult result = program_.run(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  fakes::Program program_;
};

TEST_F(ExplainTest, ThePageOfCodesIsWhatItPrints) {
  std::ifstream file(fakes::tree() + "/docs/codes.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), out({"explain", "--markdown"}))
      << "write it anew: nsa-harness explain --markdown > docs/codes.md";
}

TEST_F(ExplainTest, TellsEverythingOfACode) {
  EXPECT_THAT(out({"explain", "GRAD.MISSING"}),
              AllOf(StartsWith("GRAD.MISSING ("),
                    HasSubstr("given by           gradients_arrived"),
                    HasSubstr("kcmp_detached"),
                    HasSubstr("where              backward\n"),
                    HasSubstr("known from         the record\n"),
                    HasSubstr("witness"),
                    HasSubstr("nsa-harness run scenarios/faults/")));
  const auto object = nlohmann::json::parse(out({"explain", "GRAD.MISSING", "--json"}));
  EXPECT_EQ(object.at("code"), "GRAD.MISSING");
  EXPECT_EQ(object.at("outcome"), "FAIL");
  EXPECT_THAT(object.at("checks"), Contains("gradients_arrived"));
  EXPECT_EQ(object.at("node"), "backward");
  EXPECT_EQ(object.at("known_from"), "record");
}

TEST_F(ExplainTest, TellsWhichVariantsSpeakOfAnotherPlaceOrKnowOtherwise) {
  EXPECT_THAT(out({"explain", "GRAD.SCALE"}),
              AllOf(HasSubstr("where              reduced gradient (twin: local gradient, "),
                    HasSubstr("known from         the record (twin: end to end, ")));
  const auto object = nlohmann::json::parse(out({"explain", "GRAD.SCALE", "--json"}));
  EXPECT_EQ(object.at("variants").at("twin").at("node"), "local_gradient");
  EXPECT_EQ(object.at("variants").at("sum").at("known_from"), "record");
}

TEST_F(ExplainTest, AloneItListsEveryCode) {
  const std::string list = out({"explain"});
  for (const std::string& code : harness::code_names()) EXPECT_THAT(list, HasSubstr("  " + code));
  EXPECT_EQ(nlohmann::json::parse(out({"explain", "--json"})).at("codes").size(),
            harness::all_codes().size());
}

TEST_F(ExplainTest, NamesTheNearestCode) {
  const ProgramResult result = program_.run({"explain", "GRAD.MISING"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("did you mean \"GRAD.MISSING\"?"));
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(program_.run({"explain", "GRAD.MISSING", "--markdown"}).exit_code, 3);
  EXPECT_THAT(program_.run({"explain", "last"}).err, HasSubstr("a run and one of its cases"));
}

TEST_F(ExplainTest, WhoExpectsACodeIsNotKnownWithoutTheScenarios) {
  std::filesystem::remove_all(program_.share() + "/scenarios");
  EXPECT_THAT(out({"explain", "GRAD.MISSING"}), HasSubstr("not known: there is no folder"));
  EXPECT_TRUE(nlohmann::json::parse(out({"explain", "GRAD.MISSING", "--json"}))
                  .at("expected_by")
                  .is_null());
}

TEST_F(ExplainTest, TellsTheFindingsOfAStoredCase) {
  program_.set_mood("crash");
  ASSERT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 1);
  EXPECT_THAT(out({"explain", "last", "s"}),
              AllOf(StartsWith("s: CRASH"),
                    HasSubstr("1. CRASH.SIGNAL @"),
                    HasSubstr("role               initiating"),
                    HasSubstr("check              process_clean"),
                    HasSubstr("ruled out"),
                    HasSubstr("next action")));
  EXPECT_EQ(out({"explain", "last", "1"}), out({"explain", "last", "s"}));
  const auto object = nlohmann::json::parse(out({"explain", "last", "s", "--json"}));
  EXPECT_EQ(object.at("findings").at(0).at("code"), "CRASH.SIGNAL");
  EXPECT_EQ(object.at("findings").at(0).at("variant"), "signal");
  const ProgramResult unknown = program_.run({"explain", "last", "t"});
  EXPECT_EQ(unknown.exit_code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("found \"t\", wanted s"));
}

}  // namespace
