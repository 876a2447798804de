// The main job with launchers that start the ranks, where this machine has them. Slurm and two hosts:
// tests/selftest/several_hosts.py.
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cli/command.h"
#include "tests/e2e/installed.h"

namespace e2e {
namespace {

bool is_here(const std::string& program) {
  return harness::cli::run_command({"/bin/sh", "-c", "command -v " + program}).ok();
}

std::string mpirun() {
  const std::string root = geteuid() == 0 ? " --allow-run-as-root" : "";
  return "mpirun --oversubscribe --bind-to none -n {ranks}" + root;
}

// That of the environment which LibTorch was installed into.
std::string torchrun() {
  const char* torch = std::getenv("NSA_TORCH");
  return std::filesystem::weakly_canonical(std::string(torch != nullptr ? torch : "") +
                                           "/../../../../bin/torchrun")
      .string();
}

std::vector<std::string> small(const std::string& name,
                               const std::string& launcher,
                               std::vector<std::string> more = {}) {
  std::vector<std::string> args = {scenario(name),
                                   "--set",
                                   "model={use: toy, n_layers: 2, n_sel: 4, w: 128}",
                                   "--profile",
                                   "base",
                                   "--json",
                                   "--quiet",
                                   "--launcher",
                                   launcher};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

void expect_passes(const Told& told) {
  EXPECT_EQ(told.exit_code, 0) << told.text;
  const nlohmann::json& the_case = told.out.at("cases").at(0);
  EXPECT_EQ(the_case.at("outcome"), "PASS");
  EXPECT_GE(the_case.at("verdicts").size(), 12U);
}

TEST(Launchers, AHealthyStepPassesUnderMpirun) {
  if (!is_here("mpirun")) GTEST_SKIP() << "mpirun is not on this machine (Debian: openmpi-bin)";
  const Installed program;
  expect_passes(program("run", small("ddp_onestep", mpirun())));
}

TEST(Launchers, AKilledRankIsNamedUnderMpirun) {
  if (!is_here("mpirun")) GTEST_SKIP() << "mpirun is not on this machine (Debian: openmpi-bin)";
  for (const int rank : {0, 1}) {
    const Installed program;
    const std::string number = std::to_string(rank);
    const Told told = program(
        "run",
        small("faults/rank_killed",
              mpirun(),
              {"--set", "fault.rank=" + number, "--set", "expect.site={ranks: [" + number + "]}"}));
    EXPECT_EQ(told.exit_code, 0) << told.text;
    const nlohmann::json& findings = told.out.at("cases").at(0).at("findings");
    ASSERT_FALSE(findings.empty()) << told.text;
    EXPECT_EQ(findings.at(0).at("code"), "CRASH.SIGNAL");
    EXPECT_EQ(findings.at(0).at("site").at("ranks"), nlohmann::json::array({rank}));
  }
}

TEST(Launchers, AHealthyStepPassesUnderTorchrun) {
  if (!std::filesystem::exists(torchrun())) GTEST_SKIP() << "no torchrun beside this LibTorch";
  const Installed program;
  expect_passes(program(
      "run",
      small("ddp_onestep", torchrun() + " --standalone --no-python --nproc-per-node {ranks}")));
}

TEST(Launchers, WhatIsNotThereIsAnErrorThatNamesIt) {
  const Installed program;
  const Told told = program("run", small("ddp_onestep", "no_such_launcher -n {ranks}"));
  EXPECT_EQ(told.exit_code, 6) << told.text;
  EXPECT_THAT(told.out.at("cases").at(0).at("reason").get<std::string>(),
              testing::HasSubstr("no_such_launcher"));
}

TEST(Launchers, WhatCannotBeMeantIsRefused) {
  const Installed program;
  for (const auto& more : std::vector<std::vector<std::string>>{
           {"--listen", "0.0.0.0"}, {"--listen", "localhost"}, {"--listen", "10.0.0.1:99999"}}) {
    auto args = small("ddp_onestep", "mpirun");
    args.insert(args.end(), more.begin(), more.end());
    std::erase(args, "--json");
    EXPECT_EQ(program("run", args).exit_code, 3) << more.back();
  }
}

}  // namespace
}  // namespace e2e
