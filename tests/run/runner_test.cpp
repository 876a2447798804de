// run_case() on fake ranks in all their moods. No assertion on speed: only generous deadlines.
#include "harness/run/runner.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <thread>

#include "harness/run/record/run_folder.h"
#include "nsa/base/error.h"
#include "tests/fakes/where.h"
#include "tests/run/run_support.h"

namespace harness {
namespace {

using test::fake_case;
using test::patient_options;
using test::Ran;
using test::run_fakes;

class RunnerTest : public ::testing::Test {
 protected:
  using Moods = std::map<std::string, std::string>;

  Ran run(int ranks, const Moods& moods) {
    return run_fakes(fake_case(ranks), patient_options(folder_.path(), moods));
  }

  // With a threshold that a standstill crosses soon.
  Ran run_briefly(int ranks, const Moods& moods, double budget_seconds = 600.0) {
    RunnerOptions options = patient_options(folder_.path(), moods);
    options.still.floor_ms = 1'500;
    return run_fakes(fake_case(ranks, budget_seconds), options);
  }

  static std::vector<int> started(const Ran& ran) {
    std::vector<int> all;
    for (const auto& row : ran.evidence.started) all.push_back(row.row.process_started);
    return all;
  }

  static void expect_nobody_left(const Ran& ran) {
    for (const auto& row : ran.evidence.started) EXPECT_FALSE(test::is_alive(row.row.pid));
    EXPECT_EQ(ran.evidence.exited.size(), ran.evidence.started.size());
  }

  static std::string stop_reason(const Ran& ran) {
    return ran.evidence.stopped.empty() ? "" : ran.evidence.stopped.front().row.reason;
  }

  fakes::TempFolder folder_;
};

TEST_F(RunnerTest, RanksThenTwinAndEverythingRecorded) {
  const Ran ran = run(2, {{"", "ok"}});
  EXPECT_EQ(started(ran), (std::vector<int>{0, 1, kTwin}));
  for (const int process : {0, 1, kTwin}) {
    EXPECT_TRUE(ran.evidence.finished(process)) << process;
    ASSERT_NE(ran.evidence.exit_of(process), nullptr);
    EXPECT_EQ(ran.evidence.exit_of(process)->exit_code, 0);
    EXPECT_FALSE(ran.evidence.exit_of(process)->by_controller);
    EXPECT_GT(ran.evidence.exit_of(process)->rss_peak_bytes, 0);
  }
  EXPECT_EQ(ran.evidence.samples.size(), 9u);
  EXPECT_TRUE(ran.evidence.rejected.empty());
  EXPECT_TRUE(ran.evidence.stopped.empty());
  EXPECT_TRUE(ran.evidence.suspects.empty());
  EXPECT_FALSE(ran.result.recording_failed);
  EXPECT_FALSE(ran.evidence.facts.empty()) << "the machine's state";
  expect_nobody_left(ran);
}

TEST_F(RunnerTest, WhatTheCaseIsComparedWithIsRecordedWithIt) {
  RunnerOptions options = patient_options(folder_.path(), {{"", "ok"}});
  options.other_levels = {{0, "still", {1}, {"0 1 5.5"}, {"0 hash"}}};
  const Ran ran = run_fakes(fake_case(1), options);
  ASSERT_EQ(ran.evidence.other_levels.size(), 1U);
  const auto& row = ran.evidence.other_levels.front();
  EXPECT_EQ(row.process, kController);
  EXPECT_EQ(row.row.end, "still");
  EXPECT_EQ(row.row.losses, options.other_levels.front().losses);
}

TEST_F(RunnerTest, LogHoldsExactlyWhatTheHookSaw) {
  const Ran ran = run(1, {{"", "garbage"}});
  std::vector<std::string> logged;
  EXPECT_EQ(
      read_event_log(folder_.path(), [&](const Event& e) { logged.push_back(encode_event(e)); })
          .state,
      LogState::whole);
  std::vector<std::string> seen;
  for (const Event& event : ran.events) seen.push_back(encode_event(event));
  EXPECT_EQ(logged, seen);
}

TEST_F(RunnerTest, TwinStartsAfterAllRanksEnded) {
  const Ran ran = run(2, {{"1", "late"}});
  bool twin = false;
  int ended = 0;
  for (const Event& event : ran.events) {
    if (event.kind == Exited::kKind) ++ended;
    if (event.kind == Started::kKind && event.body.at("process_started") == kTwin) {
      twin = true;
      EXPECT_EQ(ended, 2);
    }
  }
  EXPECT_TRUE(twin);
}

TEST_F(RunnerTest, ArgumentsAndFilesOfAWorker) {
  (void)run(2, {});
  const auto arguments = [&](const std::string& name) {
    std::ifstream file(folder_ / (name + ".out"));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  EXPECT_NE(arguments("rank_0").find("--listen-fd"), std::string::npos);
  EXPECT_EQ(arguments("rank_1").find("--listen-fd"), std::string::npos);
  EXPECT_NE(arguments("rank_1").find("--rank"), std::string::npos);
  EXPECT_NE(arguments("twin").find("--twin"), std::string::npos);
  EXPECT_EQ(arguments("twin").find("--rank"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "case.json"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "rank_0.err"));
}

struct BadEnd {
  const char* mood;
  int exit_code;
  int signal;
  bool finished;
};

class BadEndTest : public RunnerTest, public ::testing::WithParamInterface<BadEnd> {};

TEST_P(BadEndTest, IsToldAsItWasAndBringsNoTwin) {
  const Ran ran = run(2, {{"1", GetParam().mood}});
  ASSERT_NE(ran.evidence.exit_of(1), nullptr);
  EXPECT_EQ(ran.evidence.exit_of(1)->exit_code, GetParam().exit_code);
  EXPECT_EQ(ran.evidence.exit_of(1)->signal, GetParam().signal);
  EXPECT_FALSE(ran.evidence.exit_of(1)->by_controller);
  EXPECT_EQ(ran.evidence.finished(1), GetParam().finished);
  EXPECT_TRUE(ran.evidence.finished(0)) << "a healthy rank still ends by itself";
  EXPECT_EQ(started(ran), (std::vector<int>{0, 1}));
  EXPECT_EQ(stop_reason(ran), "");
  expect_nobody_left(ran);
}

INSTANTIATE_TEST_SUITE_P(Moods,
                         BadEndTest,
                         ::testing::Values(BadEnd{"crash", -1, SIGSEGV, false},
                                           BadEnd{"killed", -1, SIGKILL, false},
                                           BadEnd{"exit7", 7, 0, false},
                                           BadEnd{"done_exit7", 7, 0, true},
                                           BadEnd{"error", 1, 0, false},
                                           BadEnd{"mute", 0, 0, false},
                                           BadEnd{"early", 0, 0, false},
                                           BadEnd{"closes", 0, 0, false}),
                         [](const auto& each) { return std::string(each.param.mood); });

// The kernel's counter is one for all processes of this user: a kill that it counted may be that of another case.
TEST_F(RunnerTest, AKillForMemoryIsThatOfTheCaseThatHeldTheMemory) {
  for (const std::int64_t usable : {std::int64_t{1} << 10, std::int64_t{1} << 60}) {
    const fakes::TempFolder folder;
    RunnerOptions options = patient_options(folder.path(), {{"1", "killed"}});
    std::int64_t counted = 0;
    options.memory.kills = [&] { return counted++; };
    options.memory.usable_bytes = [=] { return usable; };
    const Ran ran = run_fakes(fake_case(2), options);
    ASSERT_NE(ran.evidence.exit_of(1), nullptr);
    const bool held = usable < (std::int64_t{1} << 20);
    EXPECT_EQ(ran.evidence.exit_of(1)->out_of_memory, held);
    EXPECT_EQ(ran.evidence.exit_of(1)->memory_kill_elsewhere, !held);
    EXPECT_FALSE(ran.evidence.exit_of(0)->out_of_memory) << "it ended by itself";
  }
}

TEST_F(RunnerTest, ACommandIsKilledForMemoryWhereItHeldTheMemory) {
  for (const std::int64_t usable : {std::int64_t{1} << 10, std::int64_t{1} << 60}) {
    const fakes::TempFolder folder;
    Case the_case = fake_case(1);
    the_case.scenario.kind = kCommandKind;
    the_case.scenario.command.argv = {"sh", "-c", "sleep 2; kill -9 $$"};
    RunnerOptions options = patient_options(folder.path(), {});
    options.worker = fakes::programs() + "/fake_agent";
    options.environment.push_back("PATH=/usr/bin:/bin");
    std::int64_t counted = 0;
    options.memory.kills = [&] { return counted++; };
    options.memory.usable_bytes = [=] { return usable; };
    const Ran ran = run_fakes(the_case, options);
    ASSERT_NE(ran.evidence.exit_of(0), nullptr);
    const bool held = usable < (std::int64_t{1} << 20);
    EXPECT_EQ(ran.evidence.exit_of(0)->out_of_memory, held);
    EXPECT_EQ(ran.evidence.exit_of(0)->memory_kill_elsewhere, !held);
  }
}

TEST_F(RunnerTest, PeersOfABadEndAreEndedAfterTheirGrace) {
  const Ran ran = run(3, {{"", "hang"}, {"1", "exit7"}});
  EXPECT_EQ(stop_reason(ran), "peer_ended");
  EXPECT_NE(ran.evidence.stopped.front().row.detail.find("rank 1 exited with 7"),
            std::string::npos);
  for (const int rank : {0, 2}) {
    ASSERT_NE(ran.evidence.exit_of(rank), nullptr);
    EXPECT_TRUE(ran.evidence.exit_of(rank)->by_controller);
    EXPECT_EQ(ran.evidence.exit_of(rank)->signal, SIGTERM);
  }
  EXPECT_FALSE(ran.evidence.exit_of(1)->by_controller);
  EXPECT_EQ(ran.evidence.observations.size(), 2u) << "evidence first: one look at each live rank";
  EXPECT_EQ(started(ran), (std::vector<int>{0, 1, 2}));
  expect_nobody_left(ran);
}

TEST_F(RunnerTest, StandstillIsLookedAtTwiceThenEnded) {
  const Ran ran = run_briefly(2, {{"", "hang"}});
  EXPECT_EQ(stop_reason(ran), "still");
  ASSERT_EQ(ran.evidence.suspects.size(), 1u);
  EXPECT_GT(ran.evidence.suspects[0].row.still_ms, ran.evidence.suspects[0].row.threshold_ms);
  ASSERT_EQ(ran.evidence.observations.size(), 4u);
  for (const auto& row : ran.evidence.observations) {
    EXPECT_EQ(row.process, kController);
    ASSERT_FALSE(row.row.threads.empty());
    EXPECT_EQ(row.row.threads[0].frames, (std::vector<std::string>{"innermost", "main"}))
        << "the rank's own answer";
    EXPECT_FALSE(row.row.threads[0].state.empty()) << "seen from outside";
  }
  EXPECT_EQ(ran.evidence.observations[0].row.look, 0);
  EXPECT_EQ(ran.evidence.observations[3].row.look, 1);
  expect_nobody_left(ran);
}

TEST_F(RunnerTest, StoppedProcessIsSeenFromOutsideAndEnded) {
  const Ran ran = run_briefly(2, {{"", "hang"}, {"1", "stopped"}});
  EXPECT_EQ(stop_reason(ran), "still");
  int seen = 0;
  for (const auto& row : ran.evidence.observations) {
    if (row.row.process_observed != 1) continue;
    ++seen;
    EXPECT_EQ(row.row.state, "T");
    EXPECT_TRUE(row.row.threads.at(0).frames.empty());
  }
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(ran.evidence.exit_of(1)->signal, SIGKILL) << "a stopped process does not take TERM";
  expect_nobody_left(ran);
}

TEST_F(RunnerTest, OneRankThatMovesKeepsTheCaseAliveUntilItsBudget) {
  const Ran ran = run_briefly(2, {{"0", "hang"}, {"1", "slow"}}, 4.0);
  EXPECT_EQ(stop_reason(ran), "budget");
  EXPECT_TRUE(ran.evidence.suspects.empty());
  EXPECT_EQ(ran.evidence.observations.size(), 4u) << "two looks at each";
  expect_nobody_left(ran);
}

TEST_F(RunnerTest, SpinningRankRunsUntilItsBudgetAndItsTimeIsSeen) {
  const Ran ran = run_briefly(1, {{"", "spin"}}, 4.0);
  EXPECT_EQ(stop_reason(ran), "budget");
  EXPECT_EQ(ran.evidence.suspects.size(), 1u);
  ASSERT_GE(ran.evidence.observations.size(), 2u);
  EXPECT_GT(ran.evidence.observations[1].row.cpu_ms, ran.evidence.observations[0].row.cpu_ms);
}

TEST_F(RunnerTest, LoadingLibrariesIsNoStandstill) {
  RunnerOptions options = patient_options(folder_.path(), {{"", "loads_slowly"}});
  options.still.floor_ms = 800;  // 2 s of loading
  const Ran ran = run_fakes(fake_case(1), options);
  EXPECT_EQ(stop_reason(ran), "");
  EXPECT_TRUE(ran.evidence.finished(0));
}

TEST_F(RunnerTest, MuteHangIsEnded) {
  const Ran ran = run_briefly(1, {{"", "mute_hang"}});
  EXPECT_EQ(stop_reason(ran), "still");
  expect_nobody_left(ran);
}

TEST_F(RunnerTest, ClosedPipeAndHangIsEnded) {
  const Ran ran = run_briefly(1, {{"", "closes_hang"}});
  EXPECT_EQ(stop_reason(ran), "still");
  expect_nobody_left(ran);
}

TEST_F(RunnerTest, IgnoredTermIsFollowedByKill) {
  const Ran ran = run_briefly(1, {{"", "ignores_term"}});
  EXPECT_EQ(stop_reason(ran), "still");
  EXPECT_EQ(ran.evidence.exit_of(0)->signal, SIGKILL);
  EXPECT_TRUE(ran.evidence.exit_of(0)->by_controller);
  expect_nobody_left(ran);
}

TEST_F(RunnerTest, FloodLosesNothing) {
  const Ran ran = run(2, {{"1", "flood"}, {"TWIN", "early"}});
  std::vector<double> flood;
  for (const auto& row : ran.evidence.samples) {
    if (row.row.metric == "flood") flood.push_back(row.row.value);
  }
  std::vector<double> wanted(100'000);
  std::iota(wanted.begin(), wanted.end(), 0.0);
  EXPECT_EQ(flood, wanted);
  EXPECT_TRUE(ran.evidence.finished(1));
  EXPECT_TRUE(ran.evidence.rejected.empty());
}

TEST_F(RunnerTest, GarbageIsKeptAsRejectedAndDoesNotStopTheCase) {
  const Ran ran = run(1, {{"0", "garbage"}});
  ASSERT_EQ(ran.evidence.rejected.size(), 4u);
  EXPECT_EQ(ran.evidence.rejected[0].process, 0);
  EXPECT_EQ(ran.evidence.rejected[0].row.value, "?? garbage");
  EXPECT_TRUE(ran.evidence.finished(0));
  EXPECT_TRUE(ran.evidence.twin_ran());
}

TEST_F(RunnerTest, EndlessGarbageIsCounted) {
  const Ran ran = run(1, {{"0", "endless_garbage"}});
  ASSERT_EQ(ran.evidence.rejected.size(), 101u);
  EXPECT_EQ(ran.evidence.rejected.back().row.value, "400");
}

TEST_F(RunnerTest, HalfALineIsRejectedAtTheEnd) {
  const Ran ran = run(1, {{"0", "half_line"}});
  ASSERT_EQ(ran.evidence.rejected.size(), 1u);
  EXPECT_EQ(ran.evidence.rejected[0].row.name, "half a line");
}

TEST_F(RunnerTest, HugeLineIsRejectedAndTheNextOneRead) {
  const Ran ran = run(1, {{"0", "huge_line"}});
  ASSERT_EQ(ran.evidence.rejected.size(), 1u);
  EXPECT_EQ(ran.evidence.rejected[0].row.name, "line too long");
  EXPECT_TRUE(ran.evidence.finished(0));
}

TEST_F(RunnerTest, WhatALineSaysOfItsWriterIsNotBelieved) {
  const Ran ran = run(1, {{"0", "liar"}});
  ASSERT_GE(ran.evidence.samples.size(), 2u);
  EXPECT_EQ(ran.evidence.samples[0].row.metric, "liar");
  EXPECT_EQ(ran.evidence.samples[0].process, 0);
  EXPECT_LT(ran.evidence.samples[1].t_ms, std::int64_t{1} << 40);
  EXPECT_EQ(ran.evidence.rejected.size(), 2u) << "exited and stopped are the controller's";
  EXPECT_TRUE(ran.evidence.stopped.empty());
}

class GrandchildTest : public RunnerTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(GrandchildTest, DoesNotOutliveTheCase) {
  (void)run_briefly(1, {{"0", GetParam()}});
  std::ifstream out(folder_ / "rank_0.out");
  std::string word;
  std::int64_t pid = 0;
  while (out >> word) {
    if (word == "grandchild") out >> pid;
  }
  ASSERT_GT(pid, 0);
  EXPECT_FALSE(test::is_alive(pid));
}

INSTANTIATE_TEST_SUITE_P(Moods,
                         GrandchildTest,
                         ::testing::Values("grandchild",
                                           "grandchild_hang",
                                           "grandchild_apart",
                                           "grandchild_bare",
                                           "grandchild_apart_killed"));

TEST_F(RunnerTest, ProcessesThatStartEachOtherDoNotOutliveTheCase) {
  const Ran ran = run(1, {{"0", "chain"}});
  for (const auto& [pid, state] : all_processes()) {
    EXPECT_FALSE(state.name == "chain_of_fakes" && state.state != 'Z') << pid;
  }
  EXPECT_TRUE(
      std::any_of(ran.evidence.facts.begin(), ran.evidence.facts.end(), [](const auto& row) {
        return row.row.name == kLeftBehindFact && row.row.value == "chain_of_fakes";
      }));
}

TEST_F(RunnerTest, WhatIsLeftBehindIsTold) {
  const auto told = [](const Ran& ran) {
    const auto& facts = ran.evidence.facts;
    return std::any_of(facts.begin(), facts.end(), [](const auto& row) {
      return row.process == kController && row.row.name == kLeftBehindFact;
    });
  };
  EXPECT_TRUE(told(run(1, {{"0", "grandchild_apart"}})));
  const fakes::TempFolder other;
  EXPECT_FALSE(told(run_fakes(fake_case(1), patient_options(other.path(), {{"0", "ok"}}))));
}

TEST_F(RunnerTest, TwinThatHangsIsEndedToo) {
  const Ran ran = run_briefly(1, {{"TWIN", "hang"}});
  EXPECT_EQ(stop_reason(ran), "still");
  EXPECT_FALSE(ran.evidence.exit_of(0)->by_controller);
  EXPECT_TRUE(ran.evidence.exit_of(kTwin)->by_controller);
  expect_nobody_left(ran);
}

TEST_F(RunnerTest, InterruptEndsTheCaseCleanly) {
  std::atomic<int> flag{0};
  RunnerOptions options = patient_options(folder_.path(), {{"", "hang"}});
  options.interrupted = &flag;
  RunnerHooks hooks;
  hooks.on_event = [&](const Event& event) {
    if (event.kind == Hello::kKind) flag = SIGINT;
  };
  const Ran ran = run_fakes(fake_case(2), options, hooks);
  EXPECT_TRUE(ran.result.interrupted);
  EXPECT_EQ(stop_reason(ran), "interrupted");
  EXPECT_EQ(ran.evidence.observations.size(), 2u);
  expect_nobody_left(ran);
}

TEST_F(RunnerTest, InterruptBetweenRanksAndTwinStartsNoTwin) {
  std::atomic<int> flag{0};
  RunnerOptions options = patient_options(folder_.path(), {});
  options.interrupted = &flag;
  RunnerHooks hooks;
  hooks.on_event = [&](const Event& event) {
    if (event.kind == Exited::kKind) flag = SIGINT;
  };
  const Ran ran = run_fakes(fake_case(1), options, hooks);
  EXPECT_TRUE(ran.result.interrupted);
  EXPECT_EQ(started(ran), std::vector<int>{0});
  EXPECT_EQ(stop_reason(ran), "interrupted");
}

TEST_F(RunnerTest, HookThatThrowsChangesNothingButTheResult) {
  int calls = 0;
  RunnerHooks hooks;
  hooks.on_event = [&](const Event&) {
    if (++calls == 3) throw nsa::Error("database or disk is full");
  };
  hooks.on_tick = [] { throw 1; };
  const RunResult result = run_case(fake_case(2), patient_options(folder_.path(), {}), hooks);
  EXPECT_TRUE(result.recording_failed);
  EXPECT_EQ(result.recording_error, "database or disk is full");
  EXPECT_EQ(calls, 3) << "a record has no holes";
  Evidence logged;
  EXPECT_EQ(read_event_log(folder_.path(), [&](const Event& e) { logged.add(e); }).state,
            LogState::whole);
  EXPECT_TRUE(logged.twin_ran());
}

// ---- lives -----------------------------------------------------------------------------------------------------------------

Case with_kill(int ranks, std::int64_t step, const std::string& phase, std::int64_t after_ms = 0) {
  Case the_case = fake_case(ranks);
  the_case.scenario.training.steps = 4;
  the_case.scenario.life = {2, step, phase, after_ms};
  return the_case;
}

int count(const std::string& text, const std::string& word) {
  int times = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++times;
  }
  return times;
}

class LifeTest : public RunnerTest {
 protected:
  Ran run_with(const Case& the_case, const Moods& moods, const RunnerHooks& hooks = {}) {
    return run_fakes(the_case, patient_options(folder_.path(), moods), hooks);
  }

  std::string text(const std::string& name) {
    std::ifstream file(folder_ / name);
    std::stringstream content;
    content << file.rdbuf();
    return content.str();
  }

  // Ranks of the first life that the signal ended.
  static std::int64_t killed_ranks(const Ran& ran) {
    return std::count_if(
        ran.evidence.exited.begin(), ran.evidence.exited.end(), [](const auto& exited) {
          return exited.row.signal == SIGKILL && exited.row.by_controller;
        });
  }

  // The ranks were killed and lived again: both lives are whole in the record, and the last one is told.
  static void expect_resumed(const Ran& ran, int ranks) {
    ASSERT_EQ(ran.evidence.relaunches.size(), 1u);
    EXPECT_EQ(ran.evidence.relaunches[0].row.life, 1);
    const auto wanted = static_cast<std::size_t>(2 * ranks + 1);
    ASSERT_EQ(ran.evidence.exited.size(), wanted);
    // A rank whose last step was over may end by itself before the signal reaches it.
    for (std::size_t i = 0; i < static_cast<std::size_t>(ranks); ++i) {
      const auto& end = ran.evidence.exited[i].row;
      EXPECT_TRUE(end.signal == SIGKILL ? end.by_controller
                                        : end.signal == 0 && end.exit_code == 0);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(ran.evidence.finished(rank));
      EXPECT_EQ(ran.evidence.exit_of(rank)->exit_code, 0);
    }
    EXPECT_TRUE(ran.evidence.twin_ran());
    const Evidence last = ran.evidence.last_life();
    EXPECT_EQ(last.hellos.size(), static_cast<std::size_t>(ranks + 1));
    EXPECT_EQ(last.exited.size(), static_cast<std::size_t>(ranks + 1));
    EXPECT_EQ(stop_reason(ran), "");
  }
};

TEST_F(LifeTest, RanksKilledInASaveLiveOnceMore) {
  const Ran ran = run_with(with_kill(2, 4, "save"), {{"", "stalls_in_save"}});
  expect_resumed(ran, 2);
  EXPECT_GT(killed_ranks(ran), 0);
  EXPECT_EQ(ran.evidence.relaunches[0].row.reason, "killed in step 4, phase save");
  EXPECT_EQ(started(ran), (std::vector<int>{0, 1, 0, 1, kTwin}));
  EXPECT_EQ(count(text("rank_0.out"), "--life\n"), 1) << "the first life is not told of";
  EXPECT_EQ(count(text("rank_0.out"), "--listen-fd\n"), 2);
  EXPECT_EQ(count(text("twin.out"), "--life\n"), 0);
  int saves = 0;
  for (const auto& row : ran.evidence.last_life().phases) {
    if (row.row.phase == "save" && row.row.step == 4) ++saves;
  }
  EXPECT_EQ(saves, 2) << "the second life passes the same point and is left alone";
  expect_nobody_left(ran);
}

TEST_F(LifeTest, OneRankInThePhaseIsEnough) {
  const Ran ran = run_with(with_kill(2, 3, "forward", 50),
                           {{"0", "stalls_in_save"}, {"1", "stalls_in_forward"}});
  expect_resumed(ran, 2);
  EXPECT_GT(killed_ranks(ran), 0);
  expect_nobody_left(ran);
}

TEST_F(LifeTest, APointThatNeverComesKillsNobody) {
  const Ran ran = run_with(with_kill(2, 3, "save"), {{"", "trains"}});
  EXPECT_TRUE(ran.evidence.relaunches.empty());
  EXPECT_TRUE(ran.evidence.finished(0) && ran.evidence.finished(1) && ran.evidence.twin_ran());
  EXPECT_EQ(started(ran), (std::vector<int>{0, 1, kTwin}));
}

TEST_F(LifeTest, ARankThatEndedByItselfIsNotHiddenByAnotherLife) {
  const Ran before = run_with(with_kill(2, 4, "save"), {{"0", "hang"}, {"1", "crash"}});
  EXPECT_TRUE(before.evidence.relaunches.empty());
  EXPECT_EQ(before.evidence.exit_of(1)->signal, SIGSEGV);
  EXPECT_EQ(stop_reason(before), "peer_ended");
  expect_nobody_left(before);
}

TEST_F(LifeTest, NorOneThatEndsWhileTheKillIsDue) {
  RunnerOptions options = patient_options(folder_.path(), {{"0", "hang"}, {"1", "dies_in_save"}});
  options.peer_grace_ms = 3'000;  // the kill is due while rank 0 is still waited for
  const Ran ran = run_fakes(with_kill(2, 4, "save", 1'500), options);
  EXPECT_TRUE(ran.evidence.relaunches.empty());
  EXPECT_EQ(ran.evidence.exit_of(1)->signal, SIGSEGV);
  EXPECT_FALSE(ran.evidence.exit_of(1)->by_controller);
  EXPECT_EQ(stop_reason(ran), "peer_ended");
  expect_nobody_left(ran);
}

TEST_F(LifeTest, AnInterruptBetweenTwoLivesStartsNoOther) {
  std::atomic<int> flag{0};
  RunnerOptions options = patient_options(folder_.path(), {{"", "stalls_in_save"}});
  options.interrupted = &flag;
  RunnerHooks hooks;
  hooks.on_event = [&](const Event& event) {
    if (event.kind == Exited::kKind) flag = SIGINT;
  };
  const Ran ran = run_fakes(with_kill(1, 4, "save"), options, hooks);
  EXPECT_TRUE(ran.result.interrupted);
  EXPECT_TRUE(ran.evidence.relaunches.empty());
  EXPECT_EQ(stop_reason(ran), "interrupted");
  expect_nobody_left(ran);
}

TEST_F(LifeTest, KilledAnywhereItEndsWell) {
  std::mt19937 random(7);
  const std::vector<std::string> phases = {"data", "forward", "backward", "optimizer", "save"};
  std::int64_t killed = 0;
  for (int i = 0; i < 12; ++i) {
    const fakes::TempFolder folder;
    const Case the_case = with_kill(2,
                                    1 + static_cast<std::int64_t>(random() % 4),
                                    phases[random() % phases.size()],
                                    static_cast<std::int64_t>(random() % 60));
    const Ran ran = run_fakes(the_case, patient_options(folder.path(), {{"", "trains"}}));
    expect_nobody_left(ran);
    EXPECT_TRUE(ran.evidence.finished(0) && ran.evidence.finished(1) && ran.evidence.twin_ran());
    if (ran.evidence.relaunches.empty()) continue;
    expect_resumed(ran, 2);
    killed += killed_ranks(ran);
  }
  EXPECT_GT(killed, 0);
}

TEST_F(RunnerTest, MissingWorkerIsAnErrorThatNamesIt) {
  RunnerOptions options = patient_options(folder_.path(), {});
  options.worker = "/nowhere/worker";
  try {
    (void)run_case(fake_case(2), options, {});
    FAIL() << "started a missing file";
  } catch (const nsa::Error& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere/worker"), std::string::npos);
  }
}

TEST_F(RunnerTest, AttemptIsNeverWrittenOver) {
  (void)run(1, {});
  EXPECT_THROW((void)run(1, {}), nsa::Error);
}

// ---- a kernel of the user's own -------------------------------------------------------------------------------------

// `torch` is what `import torch` runs in the process of the kernel.
Ran run_foreign(const fakes::TempFolder& folder, const std::string& torch) {
  Case the_case = fake_case(1);
  the_case.scenario.kind = kKernelKind;
  the_case.scenario.kernel.callable = "module:name";
  the_case.scenario.kernel.level = "attend_win";
  folder.write("torch.py", torch);
  RunnerOptions options = patient_options(folder.path(), {});
  options.worker = "/usr/bin/python3";
  options.environment.push_back("PYTHONPATH=" + fakes::tree() + "/python:" + folder.path());
  options.environment.emplace_back("PYTHONDONTWRITEBYTECODE=1");
  options.still.floor_ms = 2'000;
  return run_fakes(the_case, options);
}

TEST_F(RunnerTest, AForeignCaseHasTrialsBeforeItHasAProcess) {
  const Ran ran = run_foreign(folder_, "raise RuntimeError('this torch is none')");
  ASSERT_FALSE(ran.evidence.artefacts.empty());
  const std::int64_t started = ran.evidence.started.at(0).t_ms;
  for (const auto& row : ran.evidence.artefacts) {
    EXPECT_EQ(row.process, kController);
    EXPECT_LE(row.t_ms, started);
    EXPECT_TRUE(std::filesystem::exists(folder_ / row.row.path));
  }
  ASSERT_NE(ran.evidence.error_of(0), nullptr);
  EXPECT_EQ(ran.evidence.error_of(0)->type, "RuntimeError");
  EXPECT_EQ(ran.evidence.error_of(0)->what, "this torch is none");
  EXPECT_EQ(ran.evidence.error_of(0)->phase, "init");
  EXPECT_EQ(ran.evidence.error_of(0)->frames.at(0),
            "<module> (torch.py:1): raise RuntimeError('this torch is none')");
  EXPECT_TRUE(ran.evidence.rejected.empty());
  expect_nobody_left(ran);
}

TEST_F(RunnerTest, AForeignProcessThatWaitsForEverTellsWhere) {
  const Ran ran = run_foreign(folder_,
                              "import threading\n"
                              "def waits_for_ever():\n"
                              "    threading.Event().wait()\n"
                              "__version__ = '2'\n"
                              "waits_for_ever()\n");
  EXPECT_EQ(stop_reason(ran), "still");
  bool told = false;
  for (const auto& row : ran.evidence.observations) {
    for (const ThreadStack& thread : row.row.threads) {
      for (const std::string& frame : thread.frames) {
        told = told || frame == "waits_for_ever (torch.py:3): threading.Event().wait()";
      }
    }
  }
  EXPECT_TRUE(told);
  expect_nobody_left(ran);
}

}  // namespace
}  // namespace harness
