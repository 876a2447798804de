// The pieces of the command line that can be asked alone.
#include <chrono>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cli/command.h"
#include "harness/cli/machine/environment.h"
#include "harness/cli/machine/machine.h"
#include "harness/cli/machine/provenance.h"
#include "harness/cli/output.h"
#include "harness/cli/paths.h"
#include "harness/cli/running/case_needs.h"
#include "harness/cli/running/command_case.h"
#include "harness/cli/running/progress_line.h"
#include "harness/scenario/case_json.h"
#include "harness/store/identity.h"
#include "harness/store/prune.h"
#include "nsa/base/file.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temp_folder.h"

namespace {

namespace fs = std::filesystem;
namespace cli = harness::cli;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(Environment, OnlyWhatIsAllowedIsPassedOn) {
  const cli::Variables all = {{"AWS_SECRET_ACCESS_KEY", "x"},
                              {"CUDA_VISIBLE_DEVICES", "0"},
                              {"GITHUB_TOKEN", "x"},
                              {"HOME", "/h"},
                              {"NCCL_DEBUG", "INFO"},
                              {"OMP_NUM_THREADS", "3"},
                              {"PATH", "/bin"},
                              {"TORCH_HUB_TOKEN", "x"},
                              {"XOMP_", "x"}};
  const cli::Variables allowed = cli::allowed_variables(all);
  EXPECT_EQ(allowed,
            (cli::Variables{{"CUDA_VISIBLE_DEVICES", "0"},
                            {"HOME", "/h"},
                            {"NCCL_DEBUG", "INFO"},
                            {"OMP_NUM_THREADS", "3"},
                            {"PATH", "/bin"}}));
  EXPECT_EQ(cli::steering_variables(allowed),
            (cli::Variables{
                {"CUDA_VISIBLE_DEVICES", "0"}, {"NCCL_DEBUG", "INFO"}, {"OMP_NUM_THREADS", "3"}}));
}

TEST(Environment, WhatLooksLikeASecretIsNeitherPassedOnNorStored) {
  for (const char* name : {"TORCH_api_key",
                           "NCCL_PASSWD",
                           "CUDA_CREDENTIAL",
                           "OMP_AUTH",
                           "TORCH_HF_PAT",
                           "NCCL_token",
                           "NCCL_X_TOKEN",
                           "TORCH_APIKEY",
                           "CUDA_Secret_2",
                           "OMP_PASSPHRASE",
                           "TORCH_KEY",
                           "NCCL_AUTHORIZATION"}) {
    EXPECT_TRUE(cli::allowed_variables({{name, "x"}}).empty()) << name;
  }
  for (const char* name : {"CUDA_PATH",
                           "NCCL_TOPO_FILE",
                           "TORCH_NCCL_TRACE_BUFFER_SIZE",
                           "CUDA_DEVICE_ORDER",
                           "OMP_PLACES",
                           "NCCL_PATTERN",
                           "PATH",
                           "LD_LIBRARY_PATH"}) {
    EXPECT_EQ(cli::allowed_variables({{name, "x"}}).size(), 1U) << name;
  }
}

// `python train.py` in two folders is two trainings.
TEST(CommandCase, IsTheSameOnlyInTheSameFolderWithTheSameWords) {
  const fs::path before = fs::current_path();
  const fakes::TempFolder folder;
  const auto identity = [&](const fs::path& there, const std::vector<std::string>& argv) {
    fs::create_directories(there);
    fs::current_path(there);
    harness::CommandConfig command;
    command.argv = argv;
    const harness::Case the_case = cli::case_of_command(command, 60.0);
    fs::current_path(before);
    return harness::identity_of(harness::case_to_json(the_case)).history_id;
  };
  const std::string first = identity(folder / "a", {"python", "train.py"});
  EXPECT_EQ(identity(folder / "a", {"python", "train.py"}), first);
  EXPECT_NE(identity(folder / "b", {"python", "train.py"}), first);
  EXPECT_NE(identity(folder / "a", {"python", "other.py"}), first);
  EXPECT_NE(identity(folder / "a", {"python", "train.py", "--lr", "1"}), first);
}

TEST(Environment, WhereAToolkitLiesSteersNothing) {
  const cli::Variables all = {
      {"CUDA_HOME", "/usr/local/cuda"}, {"CUDA_PATH", "/x"}, {"CUDA_VISIBLE_DEVICES", "0"}};
  EXPECT_EQ(cli::steering_variables(all), (cli::Variables{{"CUDA_VISIBLE_DEVICES", "0"}}));
}

TEST(Environment, ThreadsAreSharedOutOverTheRanks) {
  harness::Scenario scenario;
  for (const auto& [ranks, cores, threads] : std::vector<std::tuple<int, int, const char*>>{
           {2, 8, "4"}, {3, 8, "2"}, {8, 2, "1"}, {1, 1, "1"}}) {
    scenario.parallel.ranks = ranks;
    const auto environment = cli::worker_environment({}, scenario, cores);
    EXPECT_THAT(environment, Contains(std::string("OMP_NUM_THREADS=") + threads));
    EXPECT_THAT(environment, Contains(std::string("MKL_NUM_THREADS=") + threads));
  }
  EXPECT_THAT(cli::worker_environment({{"OMP_NUM_THREADS", "7"}}, scenario, 8),
              Contains("OMP_NUM_THREADS=7"));
  scenario.budget_cores = 2;
  EXPECT_THAT(cli::worker_environment({}, scenario, 8), Contains("OMP_NUM_THREADS=2"))
      << "others run beside it";
  scenario.budget_cores = 0;
  EXPECT_THAT(cli::worker_environment({}, scenario, 8),
              testing::AllOf(Contains("MKL_CBWR=AUTO"), Contains("MKL_DYNAMIC=FALSE")))
      << "a rank and its twin are compared bit by bit";
  EXPECT_THAT(cli::worker_environment({{"OMP_NUM_THREADS", "7"}}, scenario, 8),
              Contains("MKL_NUM_THREADS=7"));
}

TEST(Environment, TheChosenLibTorchIsFoundFirst) {
  const harness::Scenario scenario;
  EXPECT_THAT(
      cli::worker_environment({{"LD_LIBRARY_PATH", "/a"}, {"NSA_TORCH", "/t"}}, scenario, 1),
      Contains("LD_LIBRARY_PATH=/t/lib:/a"));
  EXPECT_THAT(cli::worker_environment({{"NSA_TORCH", "/t"}}, scenario, 1),
              Contains("LD_LIBRARY_PATH=/t/lib"));
  EXPECT_THAT(cli::worker_environment({}, scenario, 1),
              Not(Contains(HasSubstr("LD_LIBRARY_PATH"))));
}

TEST(Command, GivesOutputAndExitCode) {
  const cli::CommandResult result =
      cli::run_command({"sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_TRUE(result.started);
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(cli::run_command({"/nowhere/program"}).started);
  EXPECT_EQ(cli::run_command({"sh", "-c", "yes | head -c 1000000"}, 10'000, 1000).out.size(),
            1000U);
  EXPECT_EQ(cli::run_command({"cat"}).out, "") << "stdin is empty";
}

TEST(Command, AlwaysEnds) {
  using Clock = std::chrono::steady_clock;
  for (const char* script :
       {"sleep 100", "sleep 100 & wait", "exec >&-; sleep 100", "trap '' TERM; sleep 100"}) {
    const auto begun = Clock::now();
    EXPECT_TRUE(cli::run_command({"sh", "-c", script}, 200).timed_out) << script;
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(60)) << script;
  }
}

TEST(Machine, HasCoresAndMemory) {
  const cli::Machine machine = cli::look_at_machine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_bytes, 0);
  EXPECT_THAT(machine.kernel, HasSubstr("Linux"));
}

TEST(Requirements, ToldInWords) {
  harness::Scenario scenario;
  cli::Machine machine;
  machine.memory_bytes = std::int64_t{4} << 30;
  harness::Manifest manifest;
  EXPECT_EQ(cli::missing_requirement(scenario, machine, manifest), "");
  scenario.requires_memory_gib = 8;
  EXPECT_EQ(cli::missing_requirement(scenario, machine, manifest),
            "needs 8 GiB of memory, this machine has 4");
  scenario.requires_gpus = 2;
  EXPECT_EQ(cli::missing_requirement(scenario, machine, manifest),
            "needs 2 GPUs, this machine has 0");
  machine.gpus.resize(1);
  EXPECT_EQ(cli::missing_requirement(scenario, machine, manifest),
            "needs 2 GPUs, this machine has 1");
  machine.gpus.resize(2);
  scenario.parallel.device = nsa::Device::cuda;
  EXPECT_EQ(cli::missing_requirement(scenario, machine, manifest),
            "needs CUDA, this build has none");
  manifest.cuda_version = "13.0";
  EXPECT_EQ(cli::missing_requirement(scenario, machine, manifest),
            "needs NCCL, this build has none");
  manifest.nccl_version = "2.28";
  scenario.requires_memory_gib = 4;
  EXPECT_EQ(cli::missing_requirement(scenario, machine, manifest), "");
  machine.gpus = {{"large", 80 * 1024}, {"small", 16 * 1024}};
  scenario.requires_gpu_memory_gib = 16;
  EXPECT_EQ(cli::missing_requirement(scenario, machine, manifest), "");
  scenario.requires_gpu_memory_gib = 24;
  EXPECT_EQ(cli::missing_requirement(scenario, machine, manifest),
            "needs 2 GPUs with 24 GiB of memory, this machine has 1");
  scenario.requires_gpus = 1;
  EXPECT_EQ(cli::missing_requirement(scenario, machine, manifest), "")
      << "it is given the large one";
}

// The wheel has no CUDA of its own, and yet judges kernels that run on a card.
TEST(Requirements, WhatAUserBringsNeedsNoCudaOfThisBuild) {
  harness::Scenario scenario;
  scenario.kind = harness::kKernelKind;
  scenario.parallel.device = nsa::Device::cuda;
  scenario.requires_gpus = 1;
  cli::Machine machine;
  machine.driver = "470.57";
  machine.gpus = {{"old", 80 * 1024}};
  machine.gpus[0].capability = 70;
  EXPECT_EQ(cli::missing_requirement(scenario, machine, {}), "");
  harness::Manifest newer;
  newer.cuda_version = "13.0";
  EXPECT_EQ(cli::missing_requirement(scenario, machine, newer), "");
}

TEST(Prune, RemovesFilesOfRanksAndNothingElse) {
  const fakes::TempFolder folder;
  const std::string outside = folder.write("outside", "x");
  const std::string events = folder.write("case/events.jsonl", "x");
  const std::string tensor = folder.write("case/rank_0/t.safetensors", "12345");
  fs::create_symlink(outside, folder / "case/link");
  fs::create_directory_symlink(folder.path(), folder / "case/up");
  std::vector<harness::FileRow> files;
  for (const char* path : {"rank_0/t.safetensors",
                           "../outside",
                           "link",
                           "up/outside",
                           "rank_0",
                           "",
                           "missing",
                           "events.jsonl",
                           "rank_0/../events.jsonl",
                           outside.c_str()}) {
    files.push_back({0, path, 5, ""});
  }
  EXPECT_EQ(harness::remove_files(folder / "case", files), 5);
  EXPECT_FALSE(fs::exists(tensor));
  EXPECT_TRUE(fs::exists(outside));
  EXPECT_TRUE(fs::exists(events));
}

TEST(Provenance, AnOptionOfGitIsNoCommit) {
  EXPECT_FALSE(cli::commit_time_ms("/", "--all").has_value());
}

// An installed tree inside somebody else's repository: that one's commits are not the product's.
TEST(Provenance, ARepositoryAroundTheTreeIsNotTheTrees) {
  const fakes::TempFolder folder;
  folder.write("installed/scenarios/a.yaml", "");
  const std::vector<std::vector<std::string>> steps = {
      {"init", "-q"},
      {"add", "."},
      {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "first"}};
  for (std::vector<std::string> words : steps) {
    words.insert(words.begin(), {"git", "-C", folder.path()});
    ASSERT_TRUE(cli::run_command(words).ok());
  }
  EXPECT_TRUE(cli::commit_time_ms(folder.path(), "HEAD").has_value());
  EXPECT_FALSE(cli::commit_time_ms(folder / "installed", "HEAD").has_value());
}

TEST(Paths, FoldersBecomeTheirScenariosSorted) {
  const fakes::TempFolder folder;
  folder.write("b.yaml", "");
  folder.write("a/c.yaml", "");
  folder.write("a/notes.md", "");
  EXPECT_EQ(cli::scenario_files({folder.path(), "x.yaml"}),
            (std::vector<std::string>{folder / "a/c.yaml", folder / "b.yaml", "x.yaml"}));
}

TEST(Output, LinesCarryNothingThatSteersATerminal) {
  EXPECT_EQ(cli::outcome_line("FAIL", "s", 1.25, "a\x1b[2Jb\nc"),
            "FAIL          s  1.25 s  a [2Jb c");
}

TEST(Output, AFileIsWholeOrOld) {
  const fakes::TempFolder folder;
  const std::string path = folder.write("r.md", "old");
  nsa::write_durably(path, "new");
  EXPECT_EQ(fs::file_size(path), 3U);
  EXPECT_FALSE(fs::exists(path + ".partial"));
  EXPECT_THAT(error_of([&] { nsa::write_durably(folder / "none/r.md", "new"); }),
              HasSubstr("none/r.md"));
}

TEST(Progress, TheLineShowsEveryRank) {
  cli::ProgressLine line(cli::ProgressLine::Style::terminal);
  testing::internal::CaptureStderr();
  line.begin_case("s", 1, 2);
  line.on_event(1, harness::Event::of(0, 1, harness::Phase{"forward", 1}));
  harness::Heartbeat beat;
  beat.phase = "back\x1bward";
  beat.step = 2;
  beat.counters.operators_forward = 7;
  line.on_event(1, harness::Event::of(1, 2, beat));
  line.on_event(1, harness::Event::of(harness::kTwin, 3, harness::Done{}));
  line.on_tick();
  line.clear();
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_EQ(line.text(),
            "[1/2] s 0 s | rank 0 forward step 1 | rank 1 back?ward step 2, 7 ops | twin done");
  EXPECT_THAT(shown, HasSubstr("rank 1 back?ward"));
  line.on_event(1, harness::Event::of(0, 4, harness::Phase{std::string(100'000, 'x'), 1}));
  EXPECT_LT(line.text().size(), 200U);
}

TEST(Progress, TheLineShowsEveryCaseThatRuns) {
  cli::ProgressLine line(cli::ProgressLine::Style::terminal);
  testing::internal::CaptureStderr();
  line.begin_case("first", 1, 9);
  line.begin_case("second", 5, 9);
  line.on_event(5, harness::Event::of(0, 1, harness::Phase{"forward", 3}));
  EXPECT_EQ(line.text(), "[2/9] 2 at once | first 0 s | second 0 s forward step 3");
  line.end_case(1, true);
  EXPECT_EQ(line.text(), "[2/9] second 0 s | rank 0 forward step 3");
  line.begin_judging(5);
  EXPECT_EQ(line.text(), "[2/9] second 0 s | judging what was recorded");
  line.end_case(5, true);
  EXPECT_EQ(line.text(), "");
  bool printed = false;
  line.aside([&] { printed = true; });
  EXPECT_TRUE(printed);
  testing::internal::GetCapturedStderr();
}

TEST(Progress, TheLineCountsFailures) {
  cli::ProgressLine line(cli::ProgressLine::Style::none);
  line.begin_case("first", 1, 9);
  line.end_case(1, false);
  line.begin_case("second", 2, 9);
  line.end_case(2, true);
  line.begin_case("third", 3, 9);
  EXPECT_EQ(line.text(), "[3/9, 1 failed] third 0 s");
}

TEST(Progress, ANarrowTerminalShortensTheLabelFirst) {
  cli::ProgressLine line(cli::ProgressLine::Style::terminal);
  testing::internal::CaptureStderr();
  line.begin_case("branch_isolation[attention.gate=cmp,training.seq_len=512]", 1, 9);
  line.on_event(1, harness::Event::of(0, 1, harness::Phase{"forward", 3}));
  EXPECT_EQ(line.text(60), "[1/9] branch_isolation[attenti.. 0 s | rank 0 forward step 3");
  EXPECT_EQ(line.text(30), "[1/9] branch.. 0 s | rank 0 fo");
  EXPECT_EQ(line.text(5), "[1/9]");
  line.begin_case("decode[model.w=64,training.seq_len=512,attention.gate=all]", 2, 9);
  line.on_event(2, harness::Event::of(0, 1, harness::Phase{"backward", 1}));
  for (const std::size_t width : {80U, 100U}) {
    const std::string text = line.text(width);
    EXPECT_LE(text.size(), width);
    EXPECT_THAT(text, HasSubstr("forward step 3"));
    EXPECT_THAT(text, HasSubstr("backward step 1"));
  }
  line.end_case(1, true);
  line.end_case(2, true);
  testing::internal::GetCapturedStderr();
}

}  // namespace
