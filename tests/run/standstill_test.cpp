// Real processes that stand still or only look like it, supervised with short thresholds and judged: a hang is said of the first
// and never of the second. And what the controller reads about a process from outside.
#include "harness/evidence/standstill.h"

#include <algorithm>
#include <array>
#include <random>

#include "harness/checks/list.h"
#include "harness/run/looks/look_history.h"
#include "harness/run/looks/system_call.h"
#include "tests/run/run_support.h"

namespace harness {
namespace {

using test::fake_case;
using test::patient_options;
using test::Ran;
using test::run_fakes;

constexpr int kStillMs = 700;  // the threshold here; the product's is 10 s and more
constexpr int kSlowMs = 2'500;

class StandstillTest : public ::testing::Test {
 protected:
  // Two ranks; the other one waits for this one in a collective.
  Ran run_beside_a_waiting_peer(const std::string& mood, double budget_seconds) {
    RunnerOptions options = patient_options(folder_.path(), {{"0", "in_collective"}, {"1", mood}});
    options.environment.push_back("FAKE_MS=" + std::to_string(kSlowMs));
    options.still.floor_ms = kStillMs;
    return run_fakes(fake_case(2, budget_seconds), options);
  }

  static CheckResult judged(const Ran& ran) {
    const auto& checks = all_checks();
    const auto progress = std::find_if(
        checks.begin(), checks.end(), [](const Check& check) { return check.name == "progress"; });
    return progress->judge(ran.evidence);
  }

  // The system calls that its main thread was seen in; "" where they cannot be read here.
  static std::vector<std::string> calls_of(const Ran& ran, int rank) {
    std::vector<std::string> calls;
    for (const auto& row : ran.evidence.observations) {
      if (row.row.process_observed != rank || row.row.threads.empty()) continue;
      calls.push_back(row.row.threads.front().call);
    }
    return calls;
  }

  fakes::TempFolder folder_;
};

struct Standing {
  const char* mood;
  const char* call;  // that the rank's main thread waits in
};

class RealStandstill : public StandstillTest, public ::testing::WithParamInterface<Standing> {};

TEST_P(RealStandstill, IsAHangOfTheRightRank) {
  const Ran ran = run_beside_a_waiting_peer(GetParam().mood, 600.0);
  ASSERT_EQ(ran.evidence.stopped.size(), 1u);
  EXPECT_EQ(ran.evidence.stopped[0].row.reason, "still");
  const CheckResult result = judged(ran);
  ASSERT_EQ(result.findings.size(), 1u) << result.reason;
  EXPECT_EQ(result.findings[0].code, "HANG.HOST") << result.findings[0].statement;
  EXPECT_EQ(result.findings[0].site.ranks, std::vector<int>{1});
  // A look may meet a process that polls in the moment in which it runs.
  const std::vector<std::string> calls = calls_of(ran, 1);
  ASSERT_FALSE(calls.empty());
  if (std::count(calls.begin(), calls.end(), "") > 0)
    GTEST_SKIP() << "system calls cannot be read here";
  EXPECT_THAT(calls, testing::Contains(GetParam().call));
}

INSTANTIATE_TEST_SUITE_P(Moods,
                         RealStandstill,
                         ::testing::Values(Standing{"hang", "pause"},
                                           Standing{"in_lock", "futex"},
                                           Standing{"in_socket", "recvfrom"},
                                           Standing{"polls", "clock_nanosleep"}),
                         [](const auto& each) { return std::string(each.param.mood); });

TEST_F(StandstillTest, AStoppedRankIsNamedThoughItsPeerWaits) {
  const Ran ran = run_beside_a_waiting_peer("stops_itself", 600.0);
  const CheckResult result = judged(ran);
  ASSERT_EQ(result.findings.size(), 1u) << result.reason;
  EXPECT_EQ(result.findings[0].code, "HANG.HOST");
  EXPECT_EQ(result.findings[0].variant, "stopped");
  EXPECT_EQ(result.findings[0].site.ranks, std::vector<int>{1});
}

TEST_F(StandstillTest, AllInACollectiveStandStill) {
  const Ran ran = run_beside_a_waiting_peer("in_collective", 600.0);
  const CheckResult result = judged(ran);
  ASSERT_EQ(result.findings.size(), 1u) << result.reason;
  EXPECT_EQ(result.findings[0].code, "HANG.COLLECTIVE");
}

class OnlySlow : public StandstillTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(OnlySlow, IsNotEndedBeforeItMovesAgain) {
  const Ran ran = run_beside_a_waiting_peer(GetParam(), 600.0);
  EXPECT_TRUE(ran.evidence.finished(1)) << "it did all of its work";
  ASSERT_FALSE(ran.evidence.suspects.empty());
  const auto& facts = ran.evidence.facts;
  const auto moved = std::find_if(facts.begin(), facts.end(), [](const auto& fact) {
    return fact.row.name == "moved_again_ms";
  });
  ASSERT_NE(moved, facts.end()) << "suspected, and cleared by its own movement";
  for (const auto& stopped : ran.evidence.stopped) EXPECT_GT(stopped.t_ms, moved->t_ms);
}

TEST_P(OnlySlow, IsNoHangAtTheEndOfABudgetUnlessItSleptAllTheTime) {
  const Ran ran = run_beside_a_waiting_peer(GetParam(), 1.8);
  ASSERT_EQ(ran.evidence.stopped.size(), 1u);
  EXPECT_EQ(ran.evidence.stopped[0].row.reason, "budget");
  const CheckResult result = judged(ran);
  ASSERT_EQ(result.findings.size(), 1u) << result.reason;
  EXPECT_EQ(result.findings[0].site.ranks, std::vector<int>{1});
  const bool slept = std::string(GetParam()) == "sleeps";
  EXPECT_EQ(result.findings[0].code, slept ? "HANG.HOST" : "SLOW.HOST");
  EXPECT_EQ(result.findings[0].variant,
            slept                                   ? "outlasted"
            : std::string(GetParam()) == "compiles" ? "child"
                                                    : "busy");
}

INSTANTIATE_TEST_SUITE_P(Moods,
                         OnlySlow,
                         ::testing::Values("sleeps", "computes", "compiles"),
                         [](const auto& each) { return std::string(each.param); });

// ---- what two looks show -----------------------------------------------------------------------------------------------

Observation seen(int look, const std::string& call, bool timed, std::int64_t cpu_ms) {
  Observation row;
  row.look = look;
  row.state = "S";
  row.cpu_ms = cpu_ms;
  ThreadStack main_thread;
  main_thread.thread = "main 1";
  main_thread.state = call == "running" ? "R" : "S";
  main_thread.call = call;
  main_thread.timed = timed;
  main_thread.switches = 0;
  row.threads.push_back(main_thread);
  return row;
}

TEST(Standstill, OneRankThatDoesSomethingOfItsOwnIsNone) {
  std::mt19937 random(3);
  const auto draw = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  for (int turn = 0; turn < 300; ++turn) {
    const Observation before = seen(0, "futex", false, 100);
    const Observation waits = seen(1, "futex", false, 100 + draw(100));
    Observation moves = waits;
    const int how = draw(5);
    if (how == 0) moves.cpu_ms += 300 + draw(2'000);
    if (how == 1) moves.children_cpu_ms += 300 + draw(2'000);
    if (how == 2) moves.disk_bytes += (1 << 16) + draw(1 << 20);
    if (how == 3) moves.threads[0].timed = true;
    if (how == 4) {
      moves.threads.push_back(moves.threads[0]);
      moves.threads[1].call = "clock_nanosleep";
    }
    std::vector<Looked> all(static_cast<std::size_t>(1 + draw(4)), {&before, &waits, 2'000});
    EXPECT_TRUE(stands_still(all)) << "all wait";
    all[static_cast<std::size_t>(draw(static_cast<int>(all.size())))].after = &moves;
    EXPECT_FALSE(stands_still(all)) << how;
  }
}

TEST(Standstill, AWaitWithALimitForPeersIsOneAndASleepIsNot) {
  const Observation wait = seen(0, "futex", true, 100);
  const Observation sleep = seen(0, "clock_nanosleep", true, 100);
  EXPECT_TRUE(stands_still(std::vector<Looked>{{&wait, &wait, 2'000, true}}));
  EXPECT_FALSE(stands_still(std::vector<Looked>{{&wait, &wait, 2'000, false}}));
  EXPECT_FALSE(stands_still(std::vector<Looked>{{&sleep, &sleep, 2'000, true}}));
}

// A rank that looks at its loader every 5 s, beside a worker of it and a helper.
struct Polling {
  std::string frame = "_try_get_data (torch/utils/data/dataloader.py:1243)";
  std::string name = "pt_data_worker";
  std::string call = "futex";
  bool timed = false;
  std::int64_t left_ms = -1;
  std::int64_t wakes = 0;
  bool full_pipe = false;
  std::int64_t naps = -1;  // of a thread of the rank's own between the looks; -1: it has none
  std::vector<std::string> frames;

  [[nodiscard]] Doing doing() const {
    std::array<Observation, 2> looks = {seen(0, "poll", true, 100), seen(1, "poll", true, 101)};
    for (Observation& look : looks) {
      look.threads[0].frames = {"poll (selectors.py:415)", frame, "main (train.py:9): for x in y:"};
      look.threads[0].left_ms = 5'000;
      look.children = {{"python", 7, "S", 0, {"main (multiprocessing/resource_tracker.py:240)"}},
                       {name, 8, "S", 0, frames}};
      for (const char* thread : {"python 7", "pt_data_worker 8"}) {
        look.threads.emplace_back();
        look.threads.back().thread = thread;
        look.threads.back().state = "S";
        look.threads.back().call = "read";
        look.threads.back().switches = 5;
      }
      ThreadStack& main = look.threads.back();
      main.thread = name + " 8";
      main.call = call;
      main.timed = timed;
      main.left_ms = left_ms;
    }
    looks[1].threads[2].switches += wakes;
    for (Observation& look : looks) {
      look.children[1].writes_to_rank = full_pipe;
      if (naps < 0) continue;
      look.threads.push_back(look.threads[0]);
      look.threads.back().thread = "python 5";
      look.threads.back().call = "clock_nanosleep";
      look.threads.back().left_ms = -1;
      look.threads.back().switches = look.look * naps;
    }
    return slowed_by({&looks[0], &looks[1], 2'000});
  }
};

TEST(Standstill, WhoPollsAChildThatIsStuckStandsStill) {
  const std::vector<std::string> own = {"acquire (lock.py:3)", "log (train.py:31): with lock"};
  std::vector<Polling> still(7);
  still[1].call = "write";
  still[2].frame = "join (multiprocessing/process.py:149)";
  still[2].name = "python";
  still[2].frames = own;
  still[3].frame = "_communicate (subprocess.py:2021)";
  still[3].name = "sleep";
  still[3].call = "clock_nanosleep";
  still[3].timed = true;
  still[3].left_ms = 3'600'000;
  still[4].naps = 0;  // a thread that sleeps is not what the rank waits for
  still[5].frame = "wait_for (train.py:3): while p.poll() is None: time.sleep(0.5)";
  still[5].call = "write";
  still[5].full_pipe = true;
  still[6] = still[5];
  still[6].naps = 4;
  for (const Polling& one : still) EXPECT_EQ(one.doing(), Doing::waiting) << one.frame << one.call;
  std::vector<Polling> slow(9);
  slow[0].frame = "wait_for_file (train.py:3): time.sleep(5)";
  slow[1].frame = "read (socket.py:700)";
  slow[2].name = "python";  // another helper
  slow[3].call = "poll";
  slow[3].timed = true;
  slow[3].left_ms = 5'000;
  slow[4].call = "clock_nanosleep";
  slow[4].timed = true;
  slow[4].left_ms = 20'000;
  slow[5].call = "wait4";
  slow[6].call = "";
  slow[7].wakes = 1;
  slow[8] = still[5];
  slow[8].naps = 0;  // it may read when it has slept
  for (const Polling& one : slow) EXPECT_EQ(one.doing(), Doing::sleeping) << one.frame << one.call;
}

// Who polls for a minute may be right to.
TEST(Standstill, AWaitThatWakesUpAgainAndAgainIsOneOnceItHasLastedForLong) {
  const Observation poll = seen(0, "clock_nanosleep", true, 100);
  Looked looked{&poll, &poll, 2'000};
  looked.wake_ups = 200;
  looked.polls_ms = 80'000;
  looked.polled_ms = 79'000;
  EXPECT_EQ(slowed_by(looked), Doing::sleeping);
  looked.polled_ms = 80'000;
  EXPECT_EQ(slowed_by(looked), Doing::waiting);
  looked.wake_ups = kWakeUpsOfAHang - 1;
  EXPECT_EQ(slowed_by(looked), Doing::sleeping);
  Observation lock = seen(0, "futex", false, 100);  // beside a thread that polls
  lock.threads.push_back(poll.threads[0]);
  lock.threads[1].thread = "monitor 5";
  Looked waits{&lock, &lock, 2'000};
  waits.polls_ms = 80'000;
  EXPECT_EQ(slowed_by(waits), Doing::sleeping);
  waits.wake_ups = kWakeUpsOfAHang;
  EXPECT_EQ(slowed_by(waits), Doing::waiting);
}

// A server that sends a piece every few seconds: two looks see the same wait.
TEST(Standstill, WakeUpsAreCountedWhileNothingElseMoves) {
  LookHistory history;
  for (std::int64_t t_ms = 0; t_ms <= 20'000; t_ms += 500) history.sampled(t_ms / 3'000, t_ms);
  EXPECT_EQ(history.woke(10'000, 20'000), 2) << "in the last 8 s";
  EXPECT_EQ(history.woke(14'000, 20'000), 2);
  EXPECT_EQ(history.woke(18'000, 20'000), 0) << "of 2 s too little is known";
  history.sampled(-1, 20'500);
  EXPECT_EQ(history.woke(10'000, 20'500), 2) << "what cannot be read says nothing";
  EXPECT_EQ(LookHistory().woke(0, 20'000), 0);
}

// Another job that holds a lock, or a server, may be at work on what is waited for.
TEST(Standstill, WhoWaitsForWhatIsOutsideIsBorneAsLongAsWhoPolls) {
  constexpr std::int64_t kBorneMs = 80'000;
  struct Waits {
    bool outside = true;
    bool in_thread = false;
    std::vector<std::string> frames = {};  // of the main thread
    bool in_child = false;
    bool with_peers = false;
  };
  const auto doing = [](const Waits& waits, std::int64_t polled_ms) {
    std::array<Observation, 2> looks = {seen(0, "recvfrom", false, 100),
                                        seen(1, "recvfrom", false, 100)};
    for (Observation& look : looks) {
      look.threads[0].frames = waits.frames;
      ThreadStack& who = waits.in_thread || waits.in_child
                             ? look.threads.emplace_back(look.threads[0])
                             : look.threads[0];
      who.outside = waits.outside;
      if (waits.in_thread) look.threads[0].call = "futex";
      if (waits.in_child) look.threads[0].call = "read";
      if (waits.in_thread || waits.in_child) look.threads[1].thread = "python 8";
      if (waits.in_child) look.children = {{"python", 8, "S", 0}};
    }
    Looked looked{&looks[0], &looks[1], 2'000};
    looked.polled_ms = polled_ms;
    looked.polls_ms = kBorneMs;
    looked.with_peers = waits.with_peers;
    return slowed_by(looked);
  };
  const std::vector<std::string> queue = {"wait (threading.py:355)", "main (train.py:9): q.get()"};
  const std::vector<std::string> peers = {"all_reduce (torch/distributed/distributed_c10d.py:9)",
                                          "main (train.py:9): dist.all_reduce(x)"};
  for (const Waits& borne : {Waits{},
                             Waits{.in_thread = true},
                             Waits{.in_thread = true, .frames = queue},
                             Waits{.in_child = true},
                             Waits{.with_peers = true}}) {
    EXPECT_EQ(doing(borne, 20'000), Doing::sleeping);
  }
  EXPECT_EQ(doing(Waits{}, kBorneMs), Doing::waiting);
  EXPECT_EQ(doing(Waits{.in_thread = true, .frames = queue}, kBorneMs), Doing::waiting);
  EXPECT_EQ(doing(Waits{.in_child = true}, kBorneMs), Doing::waiting);
  EXPECT_EQ(doing(Waits{.outside = false}, 20'000), Doing::waiting);
  EXPECT_EQ(doing(Waits{.in_thread = true, .frames = peers}, 20'000), Doing::waiting)
      << "who waits for its peers waits for none of its own threads";
}

// A monitor is a child of a rank that waits for a lock, or for its peers.
TEST(Standstill, AChildThatSleepsCountsOnlyForWhomMayWaitForIt) {
  const auto doing = [](const std::string& call, bool timed, std::int64_t left_ms) {
    Observation look = seen(0, call, timed, 100);
    look.threads[0].left_ms = left_ms;
    look.threads.push_back(look.threads[0]);
    look.threads[1].thread = "sleep 8";
    look.threads[1].call = "clock_nanosleep";
    look.threads[1].timed = true;
    look.threads[1].left_ms = 60'000;
    look.children = {{"sleep", 8, "S", 0}};
    return slowed_by({&look, &look, 2'000});
  };
  EXPECT_EQ(doing("futex", false, -1), Doing::waiting);
  EXPECT_EQ(doing("poll", true, 1'800'000), Doing::waiting);
  EXPECT_EQ(doing("wait4", false, -1), Doing::sleeping);
  EXPECT_EQ(doing("read", false, -1), Doing::sleeping);
}

TEST(Standstill, NobodyLookedAtIsNone) {
  EXPECT_FALSE(stands_still({}));
  EXPECT_FALSE(stands_still(std::vector<Looked>(2)));
}

TEST(LookHistoryTest, WakeUpsCountFromWhenItBeganToSleep) {
  LookHistory history;
  const auto take = [&](Observation look, std::int64_t switches, std::int64_t t_ms) {
    look.threads[0].switches = switches;
    history.take(std::move(look), t_ms);
  };
  take(seen(2, "futex", true, 100), 10, 0);
  take(seen(2, "running", false, 1'900),
       500,
       2'000);  // it computed, and gave up the processor often
  take(seen(2, "futex", true, 3'800), 900, 4'000);
  take(seen(2, "futex", true, 3'801), 901, 6'000);
  EXPECT_EQ(history.newest().wake_ups, 1);
  EXPECT_EQ(slowed_by(history.newest()), Doing::sleeping);
  take(seen(2, "futex", true, 3'802), 905, 8'000);
  EXPECT_EQ(history.newest().wake_ups, kWakeUpsOfAHang);
  EXPECT_EQ(slowed_by(history.newest()), Doing::waiting);
  EXPECT_EQ(history.unrecorded().size(), 2u);
  EXPECT_TRUE(history.unrecorded().empty()) << "each once";
}

// ---- what is read from outside ---------------------------------------------------------------------------------------

TEST(WaitingCall, HasALimitWhereTheCallWasGivenOne) {
  const auto timed = [](const std::string& line) {
    const auto call = parse_waiting_call(line);
    return call ? call->name + (call->timed ? " timed" : "") : "nothing";
  };
  EXPECT_EQ(timed("running"), "running");
  EXPECT_EQ(timed("-1 0x7ffc 0x7f1b"), "page fault");
  for (const char* broken :
       {"", "x", "0x1", "202", "202 0x1 0x2", "-5 0x0 0x0", "99999999999999"}) {
    EXPECT_EQ(timed(broken), "nothing") << broken;
  }
#ifdef __x86_64__
  EXPECT_EQ(timed("230 0x0 0x0 0x7ffc 0x7ffd 0x0 0x0 0x7ffe 0x7f1b"), "clock_nanosleep timed");
  const auto sleep = parse_waiting_call("230 0x1 0x1 0x7ffc 0x7ffd 0x0 0x0 0x7ffe 0x7f1b");
  EXPECT_EQ(sleep->limit_at, 0x7ffcU);
  EXPECT_EQ(sleep->limit_clock, harness::WaitingCall::Clock::monotonic);
  EXPECT_EQ(timed("202 0x7f 0x189 0x0 0x0 0x0 0xffffffff 0x7f 0x7f"), "futex");
  EXPECT_EQ(timed("202 0x7f 0x189 0x0 0x7f12 0x0 0xffffffff 0x7f 0x7f"), "futex timed");
  EXPECT_EQ(timed("7 0x7f 0x2 0xffffffff 0x0 0x0 0x0 0x7f 0x7f"), "poll");
  EXPECT_EQ(timed("7 0x7f 0x2 0x3e8 0x0 0x0 0x0 0x7f 0x7f"), "poll timed");
  EXPECT_EQ(timed("232 0x5 0x7f 0x40 0xffffffff 0x0 0x0 0x7f 0x7f"), "epoll_wait");
  EXPECT_EQ(timed("271 0x7f 0x2 0x0 0x0 0x8 0x0 0x7f 0x7f"), "ppoll");
  EXPECT_EQ(timed("61 0x7b 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f"), "wait4");
  EXPECT_EQ(timed("987 0x0 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f"), "system call 987");
#endif
}

}  // namespace
}  // namespace harness
