// What a night runs on machines that are described here: one card of 40 or 80 GB, two, eight, none, an old driver, an old card.
#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cli/nightly/budget.h"
#include "harness/cli/nightly/place.h"
#include "harness/cli/nightly/plan.h"
#include "harness/cli/paths.h"
#include "harness/cli/running/case_needs.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"

namespace {

namespace cli = harness::cli;
using cli::NightCase;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

cli::Machine machine_with(int cards, std::int64_t card_gib, int capability = 80) {
  cli::Machine machine;
  machine.cores = 32;
  machine.memory_bytes = std::int64_t{256} << 30;
  machine.driver = cards == 0 ? "" : "580.65.06";
  for (int i = 0; i < cards; ++i) {
    machine.gpus.push_back(
        {"NVIDIA A100", card_gib * 1024, "GPU-" + std::to_string(i), capability});
  }
  return machine;
}

harness::Manifest cuda_manifest() {
  harness::Manifest manifest = fakes::manifest();
  manifest.cuda_version = "13.0";
  manifest.nccl_version = "2.28.9";
  return manifest;
}

// Every scenario that has cases for cards, and some planted faults: to read all the others takes seconds.
std::vector<std::string> few_files(const std::string& root) {
  std::vector<std::string> files = cli::scenario_files({root + "/scenarios"});
  std::erase_if(files, [](const std::string& file) {
    const bool fault = file.find("/faults/") != std::string::npos;
    const bool kept = file.find("/faults/first_key") != std::string::npos ||
                      file.find("/faults/gpu_fault") != std::string::npos ||
                      file.find("/faults/double_rope") != std::string::npos;
    return fault && !kept;
  });
  return files;
}

// Nothing was measured: each may take what its scenario allows.
double allowed(const harness::Case& the_case, const std::string&) {
  return the_case.scenario.budget_seconds;
}

std::vector<NightCase> night_on(const cli::Machine& machine,
                                const cli::Part& shard = {},
                                const harness::Manifest& manifest = cuda_manifest(),
                                const cli::ExpectedSeconds& expected = allowed) {
  const std::string root = fakes::tree();
  harness::ScenarioOptions options = fakes::scenario_options(root);
  options.gpus = static_cast<int>(machine.gpus.size());
  static const std::vector<std::string> files = few_files(root);
  return cli::night_cases(files, options, machine, manifest, shard, expected);
}

// What is not run, by scenario and profile, with its reasons.
using Lacking = std::map<std::string, std::set<std::string>>;

Lacking lacking_in(const std::vector<NightCase>& night) {
  Lacking lacking;
  for (const NightCase& one : night) {
    const harness::Scenario& scenario = one.the_case.scenario;
    if (!one.lacking.empty()) lacking[scenario.name + "/" + scenario.profile].insert(one.lacking);
  }
  return lacking;
}

// The cases that run, "scenario/profile".
std::set<std::string> running_in(const std::vector<NightCase>& night) {
  std::set<std::string> running;
  for (const NightCase& one : night) {
    if (one.lacking.empty()) {
      running.insert(one.the_case.scenario.name + "/" + one.the_case.scenario.profile);
    }
  }
  return running;
}

TEST(NightPlan, OneCardOf40GbRunsAllButWhatNeedsTwoOrALargerOne) {
  const auto night = night_on(machine_with(1, 40));
  const Lacking lacking = lacking_in(night);
  EXPECT_EQ(lacking.at("ddp_onestep/gpu"),
            std::set<std::string>{"needs 2 GPUs, this machine has 1"});
  EXPECT_EQ(lacking.at("long_rows/gpu"),
            std::set<std::string>{"needs 1 GPUs with 72 GiB of memory, this machine has 0"});
  const auto running = running_in(night);
  EXPECT_THAT(running, Contains("train_curve/gpu"));
  EXPECT_THAT(running, Contains("throughput/gpu"));
  EXPECT_THAT(running, Contains("ddp_onestep/")) << "what it can run of it, it runs";
  EXPECT_THAT(running, Not(Contains("train_curve/")));
  for (const auto& [scenario, reasons] : lacking) {
    EXPECT_THAT(scenario, testing::EndsWith("/gpu"));
  }
}

TEST(NightPlan, MoreCardsLackLess) {
  const Lacking one_small = lacking_in(night_on(machine_with(1, 40)));
  const Lacking one_large = lacking_in(night_on(machine_with(1, 80)));
  EXPECT_EQ(one_large.count("long_rows/gpu"), 0U);
  EXPECT_EQ(one_large.size() + 1, one_small.size());
  EXPECT_THAT(lacking_in(night_on(machine_with(2, 80))), IsEmpty());
  EXPECT_THAT(lacking_in(night_on(machine_with(8, 80))), IsEmpty());
  const auto two = running_in(night_on(machine_with(2, 80)));
  EXPECT_THAT(two, Contains("ddp_onestep/gpu"));
  EXPECT_THAT(two, Not(Contains("ddp_onestep/")));
  EXPECT_EQ(two, running_in(night_on(machine_with(8, 80))));
}

TEST(NightPlan, WithoutACardTheCasesForTheProcessorRunAndTheOthersAreListed) {
  const auto night = night_on(machine_with(0, 0));
  const auto running = running_in(night);
  EXPECT_THAT(running, Contains("ddp_onestep/"));
  EXPECT_THAT(running, Contains("first_key/"));
  for (const std::string& name : running) EXPECT_THAT(name, testing::EndsWith("/"));
  const Lacking lacking = lacking_in(night);
  EXPECT_EQ(lacking.at("train_curve/gpu"),
            std::set<std::string>{"needs 1 GPUs, this machine has 0"});
}

TEST(NightPlan, AnOldDriverAndAnOldCardAreReasons) {
  cli::Machine old_driver = machine_with(2, 80);
  old_driver.driver = "550.54.15";
  for (const auto& [scenario, reasons] : lacking_in(night_on(old_driver))) {
    EXPECT_EQ(reasons,
              std::set<std::string>{
                  "needs driver 580 or newer for CUDA 13.0, this machine has 550.54.15"})
        << scenario;
  }
  EXPECT_THAT(running_in(night_on(old_driver)), Contains("train_curve/"));
  harness::Manifest cuda12 = cuda_manifest();
  cuda12.cuda_version = "12.6";
  EXPECT_THAT(lacking_in(night_on(old_driver, {}, cuda12)), IsEmpty());
  const Lacking turing = lacking_in(night_on(machine_with(2, 80, 75)));
  EXPECT_THAT(*turing.at("cuda_on_off/gpu").begin(), HasSubstr("compute capability 8.0 or newer"));
  EXPECT_EQ(turing.count("train_curve/gpu"), 0U) << "the reference runs on every card";
  EXPECT_THAT(running_in(night_on(machine_with(2, 80, 70))), Not(Contains("train_curve/gpu")));
  harness::Manifest no_cuda = fakes::manifest();
  no_cuda.cuda_version = "";
  EXPECT_THAT(running_in(night_on(machine_with(2, 80), {}, no_cuda)), Contains("ddp_onestep/"));
}

bool stands_still(const NightCase& one) {
  const auto& expect = one.the_case.scenario.expect;
  return expect &&
         (expect->outcome == harness::Outcome::hang || expect->outcome == harness::Outcome::slow);
}

TEST(NightPlan, TheMainJobThenOneCaseOfEveryScenarioAndWhatStandsStillLast) {
  const auto night = night_on(machine_with(2, 80));
  EXPECT_EQ(night.front().the_case.scenario.name, "ddp_onestep");
  std::set<std::string> first;
  std::set<std::string> second;
  int standing = 0;
  bool planted = false;
  for (const NightCase& one : night) {
    const harness::Scenario& scenario = one.the_case.scenario;
    if (stands_still(one)) {
      ++standing;
      continue;
    }
    EXPECT_EQ(standing, 0) << one.the_case.label() << " after one that stands still";
    if (first.insert(scenario.name).second) {
      EXPECT_TRUE(second.empty()) << one.the_case.label() << " after " << *second.begin();
      EXPECT_TRUE(scenario.fault || !planted) << one.the_case.label() << " after a planted fault";
      planted = scenario.fault.has_value();
    } else {
      second.insert(scenario.name);
    }
  }
  EXPECT_GT(standing, 2);
  EXPECT_FALSE(second.empty());
}

// One after the other, until the budget is used up.
std::size_t covered_by(double budget, const std::vector<NightCase>& night) {
  std::size_t covered = 0;
  for (const NightCase& one : night) {
    if (!one.lacking.empty() || one.seconds > budget) continue;
    budget -= one.seconds;
    ++covered;
  }
  return covered;
}

TEST(NightPlan, ASmallBudgetCoversTheCheapCases) {
  const auto by_content = [](const harness::Case&, const std::string& history_id) {
    return history_id.front() < '8' ? 2.0 : 50.0;
  };
  const auto night = night_on(machine_with(1, 80), {}, cuda_manifest(), by_content);
  std::vector<double> seconds;
  for (const NightCase& one : night) {
    if (one.lacking.empty()) seconds.push_back(one.seconds);
  }
  const auto cheap = static_cast<std::size_t>(std::count(seconds.begin(), seconds.end(), 2.0));
  ASSERT_GT(cheap, seconds.size() / 3);
  constexpr double kBudget = 240.0;
  // In the order of the files it covers half as many. Not all of them are cheap: some scenarios have no cheap case.
  EXPECT_GE(covered_by(kBudget, night), 40U);
}

TEST(NightPlan, ShardsHaveEveryCaseOnce) {
  const auto machine = machine_with(1, 80);
  std::multiset<std::string> parts;
  for (int part = 1; part <= 3; ++part) {
    for (const NightCase& one : night_on(machine, {part, 3})) parts.insert(one.history_id);
  }
  std::multiset<std::string> whole;
  for (const NightCase& one : night_on(machine)) whole.insert(one.history_id);
  EXPECT_EQ(parts, whole);
  const auto first = night_on(machine, {1, 3}).size();
  EXPECT_GT(first, whole.size() / 5);
  EXPECT_LT(first, whole.size() / 2);
  for (const char* text : {"", "1", "0/2", "3/2", "1/0", "a/2", "1/2/3", "-1/2"}) {
    EXPECT_THAT(error_of([&] { (void)cli::read_part("--shard", text); }),
                HasSubstr("--shard: found"))
        << text;
  }
}

TEST(NightBudget, WhatWouldNotBeOverInTimeIsNotBegun) {
  using std::chrono::minutes;
  using std::chrono::seconds;
  const cli::NightBudget budget(minutes(8), {60.0, 300.0});
  EXPECT_EQ(budget.cut(0, seconds(0)), "");
  EXPECT_EQ(budget.cut(0, seconds(420)), "");
  EXPECT_EQ(budget.cut(0, seconds(421)), "the night's budget of 8 min did not suffice for it");
  EXPECT_EQ(budget.cut(1, seconds(180)), "");
  EXPECT_THAT(budget.cut(1, seconds(181)), Not(IsEmpty()));
  const cli::NightBudget no_number(minutes(8), {std::numeric_limits<double>::quiet_NaN()});
  EXPECT_THAT(no_number.cut(0, seconds(0)), Not(IsEmpty()));
}

TEST(NightBudget, IsReadInHoursAndMinutes) {
  using std::chrono::milliseconds;
  EXPECT_EQ(cli::read_budget("3"), milliseconds(10'800'000));
  EXPECT_EQ(cli::read_budget("3h"), milliseconds(10'800'000));
  EXPECT_EQ(cli::read_budget("2.5"), milliseconds(9'000'000));
  EXPECT_EQ(cli::read_budget("8m"), milliseconds(480'000));
  for (const char* text : {"", "h", "0", "-1h", "25h", "nan", "3d", "3 h", "1e9m", "inf"}) {
    EXPECT_THAT(error_of([&] { (void)cli::read_budget(text); }), HasSubstr("--budget: found"))
        << text;
  }
}

TEST(NightPlace, NothingIsWrittenIntoACheckout) {
  const fakes::TempFolder folder;
  const std::string tree = folder / "tree";
  const auto refused = [&](const std::string& path) {
    return error_of([&] { cli::refuse_inside(tree, path, "--db"); });
  };
  folder.write("tree/scenarios/s.yaml", "");
  EXPECT_EQ(refused(tree + "/x.db"), "no error") << "an installed tree";
  folder.write("tree/nsa-harness", "");
  EXPECT_THAT(refused(tree + "/x.db"), HasSubstr("which lies in the checkout"));
  EXPECT_THAT(refused(tree + "/not/there/yet/x.db"), HasSubstr("which lies in the checkout"));
  EXPECT_THAT(refused(tree + "/../tree/x.db"), HasSubstr("which lies in the checkout"));
  std::filesystem::create_directory_symlink(tree, folder / "link");
  EXPECT_THAT(refused(folder / "link/x.db"), HasSubstr("which lies in the checkout"));
  EXPECT_EQ(refused(tree + "2/x.db"), "no error");
  EXPECT_EQ(refused(folder / "x.db"), "no error");
}

TEST(NightLock, IsHeldByOne) {
  const fakes::TempFolder folder;
  const auto first = std::make_unique<cli::NightLock>(folder / "new/n.db");
  EXPECT_TRUE(first->is_mine());
  EXPECT_FALSE(cli::NightLock(folder / "new/n.db").is_mine());
  EXPECT_TRUE(cli::NightLock(folder / "other.db").is_mine());
}

}  // namespace
