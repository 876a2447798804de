// run_case() where a launcher starts the ranks: everything is as if they had been started here, and what only a launcher or a link
// can do to them is told as that.
#include <fstream>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>

#include "harness/checks/list.h"
#include "harness/evidence/hosts.h"
#include "harness/judge/judge.h"
#include "harness/run/runner.h"
#include "nsa/base/error.h"
#include "tests/fakes/error_of.h"
#include "tests/run/join_support.h"

namespace harness {
namespace {

using test::launched_options;
using ::testing::HasSubstr;
using ::testing::Not;

class JoinedRanks : public ::testing::Test {
 protected:
  using Moods = std::map<std::string, std::string>;

  test::Ran run(int ranks, const Moods& moods, const RunnerHooks& hooks = {}) {
    return test::run_fakes(test::fake_case(ranks), launched_options(folder_.path(), moods), hooks);
  }

  test::Ran run_briefly(int ranks, const Moods& moods) {
    RunnerOptions options = launched_options(folder_.path(), moods);
    options.still.floor_ms = 1'500;
    return test::run_fakes(test::fake_case(ranks), options);
  }

  // Does something to the agent of a rank, or to that agent's own parent, once the rank has said hello.
  RunnerHooks on_hello_of(int rank, const std::function<void(pid_t agent)>& action) {
    RunnerHooks hooks;
    hooks.on_event = [this, rank, action](const Event& event) {
      if (event.kind == Started::kKind && event.body.at("process_started") == rank)
        pid_ = event.body.at("pid");
      if (event.kind == Hello::kKind && event.process == rank) action(test::parent_of(pid_));
    };
    return hooks;
  }

  static std::string fact(const test::Ran& ran, const std::string& name) {
    for (const auto& row : ran.evidence.facts) {
      if (row.process == kController && row.row.name == name) return row.row.value;
    }
    return "";
  }

  static Judgement judged(test::Ran& ran) {
    ran.evidence.the_case.scenario.checks = {"process_clean"};
    return judge(ran.evidence, all_checks());
  }

  static void expect_none_left(const test::Ran& ran) {
    for (const auto& row : ran.evidence.started) EXPECT_FALSE(test::is_alive(row.row.pid));
  }

  std::string text(const std::string& name) const {
    std::ifstream file(folder_ / name);
    std::stringstream content;
    content << file.rdbuf();
    return content.str();
  }

  fakes::TempFolder folder_;
  std::int64_t pid_ = 0;
};

TEST_F(JoinedRanks, EndWellAndTheTwinRunsHere) {
  test::Ran ran = run(2, {});
  for (const int process : {0, 1, kTwin}) {
    EXPECT_TRUE(ran.evidence.finished(process)) << process;
    ASSERT_NE(ran.evidence.exit_of(process), nullptr);
    EXPECT_EQ(ran.evidence.exit_of(process)->exit_code, 0);
    EXPECT_FALSE(ran.evidence.exit_of(process)->by_controller);
    EXPECT_FALSE(ran.evidence.exit_of(process)->by_launcher);
    EXPECT_GT(ran.evidence.exit_of(process)->rss_peak_bytes, 0);
  }
  EXPECT_EQ(ran.evidence.samples.size(), 9u);
  EXPECT_TRUE(ran.evidence.rejected.empty());
  EXPECT_THAT(fact(ran, "launcher"), HasSubstr("/bin/sh"));
  EXPECT_THAT(fact(ran, "rank_host"), HasSubstr("127.0.0.1"));
  EXPECT_EQ(fact(ran, kLinkLostFact), "");
  EXPECT_EQ(fact(ran, kLauncherEndedFact), "");
  EXPECT_EQ(judged(ran).outcome, Outcome::pass);
  expect_none_left(ran);
}

TEST_F(JoinedRanks, RankZeroHoldsTheStoreThatTheOthersAreTold) {
  (void)run(2, {});
  EXPECT_THAT(text("rank_0.out"), HasSubstr("--listen-fd"));
  EXPECT_THAT(text("rank_1.out"), Not(HasSubstr("--listen-fd")));
  for (const char* name : {"rank_0.out", "rank_1.out"}) {
    EXPECT_THAT(text(name), HasSubstr("--port"));
    EXPECT_THAT(text(name), HasSubstr("--clock-origin-ms"));
    EXPECT_THAT(text(name), Not(HasSubstr("--store"))) << "loopback is what a worker takes anyway";
  }
}

// The token is for the launcher's processes alone.
TEST_F(JoinedRanks, TokenIsNeitherInTheRecordNorInACommandLine) {
  std::string token;
  std::string seen;
  const RunnerHooks hooks = on_hello_of(1, [&](pid_t agent) {
    const std::string environment = proc_file(agent, "environ");
    const std::string name = "NSA_HARNESS_TOKEN=";
    const std::size_t at = environment.find(name);
    ASSERT_NE(at, std::string::npos);
    token = environment.substr(at + name.size(), 64);
    for (pid_t pid = agent; pid > 1; pid = test::parent_of(pid)) seen += proc_file(pid, "cmdline");
    seen += proc_file(static_cast<pid_t>(pid_), "environ");
    kill(agent, SIGTERM);
  });
  const test::Ran ran = run(2, {{"", "hang"}}, hooks);
  ASSERT_EQ(token.size(), 64u);
  EXPECT_THAT(seen, Not(HasSubstr(token)));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_THAT(text(entry.path().filename().string()), Not(HasSubstr(token))) << entry.path();
  }
}

struct End {
  const char* mood;
  int exit_code;
  int signal;
};

class JoinedEnd : public JoinedRanks, public ::testing::WithParamInterface<End> {};

TEST_P(JoinedEnd, IsToldAsItWas) {
  test::Ran ran = run(2, {{"1", GetParam().mood}});
  ASSERT_NE(ran.evidence.exit_of(1), nullptr);
  EXPECT_EQ(ran.evidence.exit_of(1)->exit_code, GetParam().exit_code);
  EXPECT_EQ(ran.evidence.exit_of(1)->signal, GetParam().signal);
  EXPECT_FALSE(ran.evidence.exit_of(1)->by_controller);
  EXPECT_FALSE(ran.evidence.exit_of(1)->by_launcher);
  EXPECT_TRUE(ran.evidence.finished(0)) << "a launcher hears of no failure, and ends nobody";
  EXPECT_EQ(fact(ran, kLauncherEndedFact), "");
  expect_none_left(ran);
}

INSTANTIATE_TEST_SUITE_P(Moods,
                         JoinedEnd,
                         ::testing::Values(End{"crash", -1, SIGSEGV},
                                           End{"killed", -1, SIGKILL},
                                           End{"exit7", 7, 0},
                                           End{"mute", 0, 0},
                                           End{"closes", 0, 0}),
                         [](const auto& each) { return std::string(each.param.mood); });

TEST_F(JoinedRanks, KilledRankIsNamed) {
  test::Ran ran = run(3, {{"", "hang"}, {"2", "killed"}});
  const Judgement judgement = judged(ran);
  EXPECT_EQ(judgement.outcome, Outcome::crash);
  ASSERT_FALSE(judgement.findings.empty());
  EXPECT_EQ(judgement.findings.front().code, "CRASH.SIGNAL");
  EXPECT_EQ(judgement.findings.front().site.ranks, std::vector<int>{2});
  expect_none_left(ran);
}

TEST_F(JoinedRanks, StandstillIsSeenThroughTheAgents) {
  const test::Ran ran = run_briefly(2, {{"", "hang"}, {"1", "stopped"}});
  ASSERT_FALSE(ran.evidence.stopped.empty());
  EXPECT_EQ(ran.evidence.stopped.front().row.reason, "still");
  ASSERT_EQ(ran.evidence.observations.size(), 4u);
  for (const auto& row : ran.evidence.observations) {
    EXPECT_EQ(row.process, kController);
    ASSERT_FALSE(row.row.threads.empty());
    EXPECT_EQ(row.row.state == "T", row.row.process_observed == 1);
    EXPECT_EQ(row.row.threads[0].frames.empty(), row.row.process_observed == 1)
        << "a rank's own answer comes through its agent too";
  }
  EXPECT_TRUE(ran.evidence.exit_of(0)->by_controller);
  EXPECT_EQ(ran.evidence.exit_of(1)->signal, SIGKILL) << "a stopped process does not take TERM";
  expect_none_left(ran);
}

TEST_F(JoinedRanks, FloodLosesNothing) {
  const test::Ran ran = run(2, {{"1", "flood"}, {"TWIN", "early"}});
  std::int64_t next = 1;
  for (const auto& row : ran.evidence.samples) {
    if (row.row.metric != "flood") continue;
    EXPECT_EQ(row.row.step, next++);
  }
  EXPECT_EQ(next, 100'001);
}

TEST_F(JoinedRanks, GarbageOfARankIsItsOwn) {
  const test::Ran ran = run(2, {{"0", "garbage"}, {"1", "huge_line"}});
  ASSERT_EQ(ran.evidence.rejected.size(), 5u);
  EXPECT_TRUE(ran.evidence.finished(0));
  EXPECT_TRUE(ran.evidence.finished(1));
  EXPECT_EQ(fact(ran, kLinkLostFact), "");
}

TEST_F(JoinedRanks, GrandchildDoesNotOutliveTheCase) {
  (void)run_briefly(1, {{"0", "grandchild_hang"}});
  std::istringstream out(text("rank_0.out"));
  std::string word;
  std::int64_t pid = 0;
  while (out >> word) {
    if (word == "grandchild") out >> pid;
  }
  ASSERT_GT(pid, 0);
  EXPECT_FALSE(test::is_alive(pid));
}

TEST_F(JoinedRanks, KillAsPlannedAndASecondLife) {
  Case the_case = test::fake_case(2);
  the_case.scenario.training.steps = 4;
  the_case.scenario.life = {2, 4, "save", 0};
  const test::Ran ran = test::run_fakes(
      the_case, launched_options(folder_.path(), {{"0", "stalls_in_save"}, {"1", "trains"}}));
  // Rank 1 may have ended before the kill: then there is none, as on this machine alone.
  if (ran.evidence.relaunches.empty()) return;
  EXPECT_TRUE(ran.evidence.finished(0));
  EXPECT_TRUE(ran.evidence.finished(1));
}

// ---- what only a launcher or a link can do ------------------------------------------------------------------------------

TEST_F(JoinedRanks, AgentThatIsKilledIsALostLinkAndNoCrash) {
  test::Ran ran = run(2, {{"", "hang"}}, on_hello_of(1, [](pid_t agent) { kill(agent, SIGKILL); }));
  EXPECT_THAT(fact(ran, kLinkLostFact), HasSubstr("rank 1: its link ended"));
  EXPECT_EQ(ran.evidence.exit_of(1), nullptr) << "nobody saw how it ended";
  const Judgement judgement = judged(ran);
  EXPECT_EQ(judgement.outcome, Outcome::error);
  EXPECT_THAT(judgement.reason, HasSubstr("the link was lost to rank 1"));
  EXPECT_TRUE(judgement.findings.empty());
  expect_none_left(ran);
}

TEST_F(JoinedRanks, SilentLinkIsLostAfterItsDeadline) {
  RunnerOptions options = launched_options(folder_.path(), {{"", "hang"}});
  options.link_deadline_ms = 3'000;
  test::Ran ran = test::run_fakes(
      test::fake_case(2), options, on_hello_of(1, [](pid_t agent) { kill(agent, SIGSTOP); }));
  EXPECT_THAT(fact(ran, kLinkLostFact), HasSubstr("rank 1: nothing came over its link for 3 s"));
  EXPECT_EQ(judged(ran).outcome, Outcome::error);
  expect_none_left(ran);
}

TEST_F(JoinedRanks, LauncherThatIsKilledIsTold) {
  test::Ran ran = run(2, {{"", "hang"}}, on_hello_of(1, [](pid_t agent) {
                        kill(test::parent_of(agent), SIGKILL);
                      }));
  for (const int rank : {0, 1}) {
    ASSERT_NE(ran.evidence.exit_of(rank), nullptr);
    EXPECT_TRUE(ran.evidence.exit_of(rank)->by_launcher);
  }
  const Judgement judgement = judged(ran);
  EXPECT_EQ(judgement.outcome, Outcome::error);
  EXPECT_THAT(judgement.reason, HasSubstr("the launcher was ended by signal 9"));
  expect_none_left(ran);
}

TEST_F(JoinedRanks, RankOfALauncherThatAsksForItsEndIsNotBlamed) {
  test::Ran ran = run(2, {{"", "hang"}}, on_hello_of(1, [](pid_t agent) { kill(agent, SIGTERM); }));
  ASSERT_NE(ran.evidence.exit_of(1), nullptr);
  EXPECT_TRUE(ran.evidence.exit_of(1)->by_launcher);
  const Judgement judgement = judged(ran);
  EXPECT_EQ(judgement.outcome, Outcome::error) << judgement.reason;
  EXPECT_THAT(judgement.reason, HasSubstr("the launcher asked for the end of rank 1"));
}

TEST_F(JoinedRanks, InterruptWhileRanksAreMissing) {
  std::atomic<int> flag{SIGINT};
  RunnerOptions options = launched_options(folder_.path(), {}, "exec sleep 600");
  options.interrupted = &flag;
  const test::Ran ran = test::run_fakes(test::fake_case(2), options);
  EXPECT_TRUE(ran.result.interrupted);
}

TEST_F(JoinedRanks, MissingRankIsNamedAfterTheDeadline) {
  RunnerOptions options =
      launched_options(folder_.path(), {}, "RANK=0 WORLD_SIZE=2 \"$@\" & exec sleep 600");
  options.launch.join_deadline_ms = 2'000;
  const std::string said = error_of([&] { (void)test::run_fakes(test::fake_case(2), options); });
  EXPECT_THAT(said, HasSubstr("rank 1 did not join within 2 s"));
}

TEST_F(JoinedRanks, LauncherThatFailsIsToldWithItsOwnWords) {
  RunnerOptions options = launched_options(folder_.path(), {}, "echo 'no such host' >&2; exit 4");
  const std::string said = error_of([&] { (void)test::run_fakes(test::fake_case(2), options); });
  EXPECT_THAT(said, HasSubstr("/bin/sh exited with 4 before ranks 0-1 had joined"));
  EXPECT_THAT(said, HasSubstr("no such host"));
}

TEST_F(JoinedRanks, AnotherNumberOfProcessesIsRefused) {
  RunnerOptions options =
      launched_options(folder_.path(), {}, "RANK=0 WORLD_SIZE=3 \"$@\" & exec sleep 600");
  const std::string said = error_of([&] { (void)test::run_fakes(test::fake_case(2), options); });
  EXPECT_THAT(said, HasSubstr("started 3 processes, but the scenario has 2 ranks"));
}

// Rank 1 comes when one of the two has been turned away: until then the door is open.
TEST_F(JoinedRanks, SecondRankZeroIsTurnedAwayByName) {
  RunnerOptions options = launched_options(folder_.path(), {});
  options.launch.words[2] = "cd '" + folder_.path() + "'; export WORLD_SIZE={ranks}\n" +
                            R"((RANK=0 "$@"; touch away) & (RANK=0 "$@"; touch away) &
until [ -e away ]; do sleep 0.05; done; RANK=1 "$@" & wait)";
  test::Ran ran = test::run_fakes(test::fake_case(2), options);
  EXPECT_THAT(fact(ran, "turned_away"), HasSubstr("a second rank 0"));
  EXPECT_EQ(judged(ran).outcome, Outcome::pass) << "the first one was a rank like any other";
}

TEST_F(JoinedRanks, WorkerThatIsNotThereIsTold) {
  RunnerOptions options = launched_options(folder_.path(), {});
  options.worker = "/no/such/worker";
  const std::string said = error_of([&] { (void)test::run_fakes(test::fake_case(2), options); });
  EXPECT_THAT(said, HasSubstr("rank 0 on "));
  EXPECT_THAT(said, HasSubstr("/no/such/worker"));
}

}  // namespace
}  // namespace harness
