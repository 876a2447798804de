// A failure on real ranks is explained by taking things away from its case, and a database made anew from the folders
// tells the same.
#include <filesystem>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/installed.h"

namespace e2e {
namespace {

using testing::HasSubstr;

TEST(Diagnose, TakesAwayWhatAFailureDependsOn) {
  const Installed here;
  (void)here("run", {scenario("faults/gc_late_binding"), "--profile", "base", "--json", "--quiet"});
  const Told told = here("diagnose", {"last", "1", "--budget", "300", "--json", "--quiet"});
  EXPECT_EQ(told.exit_code, 0) << told.text;
  ASSERT_EQ(told.out.at("cases").size(), 1U) << "experiments are no cases: " << told.text;
  const nlohmann::json& diagnosis = told.out.at("diagnoses").at(0);
  EXPECT_EQ(diagnosis.at("status"), "established") << told.text;
  EXPECT_THAT(diagnosis.at("because").at(0).get<std::string>(),
              HasSubstr("Removing activation checkpointing"));

  std::filesystem::remove(here.folder() + "/runs.db");
  for (const auto& run : std::filesystem::directory_iterator(here.folder() + "/runs")) {
    EXPECT_EQ(here("db", {"rebuild", run.path().string()}).exit_code, 0);
  }
  const Told report = here("report", {});
  EXPECT_THAT(report.text, HasSubstr("Removing activation checkpointing"));
}

// What was planted stays in the case: where the layer of it is gone, it takes no part.
TEST(Diagnose, TheLayerOfAFailureIsFoundByLeavingItOut) {
  const Installed here;
  (void)here("run", {scenario("faults/double_rope"), "--profile", "base", "--json", "--quiet"});
  const Told told = here("diagnose", {"last", "1", "--budget", "300", "--json", "--quiet"});
  EXPECT_EQ(told.exit_code, 0) << told.text;
  EXPECT_THAT(told.out.at("diagnoses").at(0).at("because").at(0).get<std::string>(),
              HasSubstr("Removing layer 1 (model.n_layers 2 -> 1)"));
}

// The lowest layer cannot be left out, and no law names this mistake: what goes is the code of the stage, or of the sums between
// ranks.
TEST(Diagnose, WhatEveryCaseRunsIsFoundByAnotherImplementation) {
  for (const auto& [fault, place, code] :
       {std::tuple{"score_cubed_fp16", "fault.layers=[0]", "Removing the code of score"},
        std::tuple{"reduce_low_precision", "fault.step=1", "Removing the code of grad_sync"},
        std::tuple{"comm_corrupt", "fault.step=1", "Removing the transport's own sums"}}) {
    const Installed here;
    (void)here("run",
               {scenario(std::string("faults/") + fault),
                "--profile",
                "base",
                "--set",
                place,
                "--set",
                "expect=null",
                "--json",
                "--quiet"});
    const Told told = here("diagnose", {"last", "1", "--budget", "300", "--json", "--quiet"});
    EXPECT_EQ(told.exit_code, 0) << told.text;
    const nlohmann::json& diagnosis = told.out.at("diagnoses").at(0);
    EXPECT_EQ(diagnosis.at("status"), "established") << told.text;
    EXPECT_THAT(diagnosis.at("because").at(0).get<std::string>(), HasSubstr(code));
  }
}

TEST(Diagnose, ACaseThatPassedIsRefused) {
  const Installed here;
  (void)here("run",
             {scenario("faults/double_rope"),
              "--profile",
              "base",
              "--set",
              "fault=null",
              "--set",
              "expect=null",
              "--json",
              "--quiet"});
  EXPECT_EQ(here("diagnose", {"last", "1"}).exit_code, 3);
  EXPECT_EQ(here("diagnose", {"last"}).exit_code, 4);
}

}  // namespace
}  // namespace e2e
