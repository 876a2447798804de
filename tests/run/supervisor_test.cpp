// The supervisor without processes: laws over random traces, then the single rules.
#include "harness/run/supervisor.h"

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "harness/evidence/event.h"

namespace harness {
namespace {

constexpr std::int64_t kTick = 100;

Event beat_of(int process,
              std::int64_t moved,
              std::int64_t longest_gap_ms,
              const std::string& phase) {
  Heartbeat beat;
  beat.phase = phase;
  beat.counters.operators_forward = moved;
  beat.longest_gap_ms = longest_gap_ms;
  return Event::of(process, 0, beat);
}

// Plays a case: time goes on in ticks, looks take `look_ms`, and every decision is kept.
class Player {
 public:
  explicit Player(const SupervisorLimits& limits, int ranks = 2) : supervisor(limits, 0) {
    for (int rank = 0; rank < ranks; ++rank) {
      supervisor.started(rank, 0);
      supervisor.heard(Event::of(rank, 0, Hello{}), 0);
    }
  }

  void beat(int process,
            std::int64_t moved,
            std::int64_t gap = 0,
            const std::string& phase = "forward") {
    supervisor.heard(beat_of(process, moved, gap, phase), now);
  }

  void step(std::int64_t ms = kTick) {
    now += ms;
    if (looking_until >= 0 && now >= looking_until) {
      supervisor.looked(stands(), now);
      looking_until = -1;
    }
    const Decision decision = supervisor.decide(now);
    if (decision.suspect) suspects.push_back(*decision.suspect);
    if (decision.fact) facts.push_back(*decision.fact);
    if (decision.kind == Decision::Kind::look) {
      looks.push_back(decision.look);
      looking_until = now + look_ms;
    }
    if (decision.kind == Decision::Kind::stop) stops.push_back({decision.stopped, now});
  }

  void run_to(std::int64_t until) {
    while (now < until) step();
  }

  [[nodiscard]] std::string reason() const {
    return stops.empty() ? "" : stops.front().first.reason;
  }

  Supervisor supervisor;
  std::int64_t now = 0;
  std::int64_t look_ms = 300;
  std::int64_t looking_until = -1;
  std::function<bool()> stands = [] { return true; };  // what the looks show
  std::vector<Suspect> suspects;
  std::vector<Fact> facts;
  std::vector<int> looks;
  std::vector<std::pair<Stopped, std::int64_t>> stops;
};

// ---- laws ----------------------------------------------------------------------------------------------------------

class SupervisorLaw : public ::testing::TestWithParam<int> {};

TEST_P(SupervisorLaw, NothingIsStillWhileAnyCounterMovesWithinTheThreshold) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  SupervisorLimits limits;
  limits.still.floor_ms = draw(1'000, 10'000);
  limits.look_apart_ms = draw(100, 3'000);
  const int ranks = static_cast<int>(draw(1, 4));
  Player player(limits, ranks);
  std::vector<std::int64_t> moved(static_cast<std::size_t>(ranks));
  std::int64_t next_move = 0;
  while (player.now < 600'000) {
    if (player.now >= next_move) {  // one rank moves, the others may stand still for ever
      const auto rank = static_cast<std::size_t>(draw(0, ranks - 1));
      player.beat(static_cast<int>(rank), ++moved[rank], draw(0, 100));
      next_move = player.now + draw(kTick, limits.still.floor_ms - 2 * kTick);
    }
    if (draw(0, 3) == 0) {  // beats of the others that tell of no movement
      const auto rank = static_cast<std::size_t>(draw(0, ranks - 1));
      player.beat(static_cast<int>(rank), moved[rank], 0);
    }
    player.step();
  }
  EXPECT_TRUE(player.suspects.empty());
  EXPECT_TRUE(player.stops.empty());
}

TEST_P(SupervisorLaw, WhatStandsStillIsAlwaysStoppedAfterThresholdAndLooks) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  SupervisorLimits limits;
  limits.still.floor_ms = draw(500, 10'000);
  limits.look_apart_ms = draw(100, 3'000);
  const int ranks = static_cast<int>(draw(1, 4));
  Player player(limits, ranks);
  player.look_ms = draw(0, 1'000);
  const std::int64_t gap = draw(0, 2'000);
  std::int64_t moved = 0;
  const std::int64_t stands_from = draw(0, 20'000);
  while (player.now < stands_from) {
    player.beat(0, ++moved, gap);
    player.step();
  }
  const std::int64_t last = player.now;
  const std::int64_t by_gap = moved > 0 ? std::min<std::int64_t>(20 * gap, 20'000) : 0;
  const std::int64_t threshold = std::max(limits.still.floor_ms, by_gap);
  const std::int64_t latest =
      last + threshold + limits.look_apart_ms + 2 * player.look_ms + 10 * kTick;
  while (player.now < latest && player.stops.empty()) {
    for (int rank = 0; rank < ranks; ++rank) player.beat(rank, rank == 0 ? moved : 0, gap);
    player.step();
  }
  ASSERT_EQ(player.reason(), "still");
  EXPECT_GE(player.now - last, threshold + limits.look_apart_ms) << "and never before";
  EXPECT_EQ(player.looks, (std::vector<int>{0, 1}));
  EXPECT_EQ(player.suspects.size(), 1u);
  player.run_to(player.now + 100'000);
  EXPECT_EQ(player.stops.size(), 1u) << "nothing comes after stop";
}

TEST_P(SupervisorLaw, ControllersOwnDelaysAreNoStandstill) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  SupervisorLimits limits;
  limits.still.floor_ms = 3'000;
  Player player(limits, 1);
  std::int64_t moved = 0;
  for (int i = 0; i < 100; ++i) {
    player.beat(0, ++moved);
    // Held up for far longer than the threshold; what the rank wrote meanwhile is read in the round after.
    player.step(std::uniform_int_distribution<std::int64_t>(1, 60'000)(random));
    player.step();
  }
  EXPECT_TRUE(player.suspects.empty());
}

INSTANTIATE_TEST_SUITE_P(Traces, SupervisorLaw, ::testing::Range(0, 60));

// ---- single rules --------------------------------------------------------------------------------------------------

TEST(Supervisor, ThresholdGrowsWithTheLongestGapOfThePhase) {
  Player player({});
  player.beat(0, 1, 700);
  player.run_to(13'900);
  EXPECT_TRUE(player.suspects.empty()) << "20 x 0.7 s";
  player.run_to(14'500);
  ASSERT_EQ(player.suspects.size(), 1u);
  EXPECT_EQ(player.suspects[0].threshold_ms, 14'000);
  EXPECT_EQ(player.suspects[0].longest_gap_ms, 700);
}

TEST(Supervisor, ThresholdIsNeverLongerThanItsCap) {
  Player player({});
  player.beat(0, 1, 60'000);
  player.run_to(20'500);
  ASSERT_EQ(player.suspects.size(), 1u);
  EXPECT_EQ(player.suspects[0].threshold_ms, 20'000);
}

TEST(Supervisor, WhereWhatIsWaitedForWillNotComeTheLooksLieCloser) {
  const SupervisorLimits limits;
  std::map<bool, std::int64_t> took;
  for (const bool hopeless : {false, true}) {
    Player player(limits);
    player.supervisor.hopeless(hopeless);
    player.run_to(20'000);
    ASSERT_EQ(player.reason(), "still");
    EXPECT_EQ(player.looks, (std::vector<int>{0, 1}));
    took[hopeless] = player.stops.front().second - player.suspects.front().still_ms;
  }
  EXPECT_EQ(took[false] - took[true], limits.look_apart_ms - limits.hopeless_apart_ms);
}

TEST(Supervisor, WhatIsSlowIsLookedAtUntilItMoves) {
  Player player({});
  player.stands = [] { return false; };
  player.run_to(60'000);
  EXPECT_TRUE(player.stops.empty()) << "no standstill, so no end";
  EXPECT_EQ(player.suspects.size(), 1u);
  EXPECT_GT(player.looks.size(), 10u);
  player.beat(0, 1);
  player.step();
  EXPECT_EQ(player.facts.size(), 1u);
  player.stands = [] { return true; };
  player.run_to(80'000);
  EXPECT_EQ(player.reason(), "still") << "watched as before";
}

TEST(Supervisor, WhatStandsStillAfterItWasSlowIsLookedAtTwiceMoreAndStopped) {
  Player player({});
  player.stands = [&] { return player.now > 30'000; };
  player.run_to(45'000);
  EXPECT_EQ(player.reason(), "still");
  ASSERT_GT(player.looks.size(), 4u);
  const std::vector<int> last(player.looks.end() - 3, player.looks.end());
  EXPECT_EQ(last, (std::vector<int>{2, 0, 1})) << "nothing is ended on a look without stacks";
}

TEST(Supervisor, WhatIsSlowEndsWithItsBudget) {
  SupervisorLimits limits;
  limits.budget_ms = 60'000;
  Player player(limits);
  player.stands = [] { return false; };
  player.run_to(70'000);
  EXPECT_EQ(player.reason(), "budget");
  EXPECT_EQ(player.looks.back(), 1);
}

TEST(Supervisor, InterruptOfWhatIsSlow) {
  Player player({});
  player.stands = [] { return false; };
  player.run_to(30'000);
  player.supervisor.interrupt(2);
  player.run_to(31'000);
  EXPECT_EQ(player.reason(), "interrupted");
}

TEST(Supervisor, GapOfAnotherPhaseDoesNotCount) {
  Player player({});
  player.beat(0, 1, 60'000, "init");
  player.beat(0, 2, 0, "forward");
  player.beat(1, 1, 0, "forward");
  player.run_to(11'000);
  ASSERT_EQ(player.suspects.size(), 1u);
  EXPECT_EQ(player.suspects[0].threshold_ms, 10'000);
}

TEST(Supervisor, HeldProcessIsNotWaitedForLongerThanTheFloor) {
  Player player({});
  player.beat(0, 1, 5'000);
  player.supervisor.seen(1, 'T', 0, player.now);
  player.run_to(10'500);
  EXPECT_EQ(player.suspects.size(), 1u);
}

TEST(Supervisor, MovementBetweenLooksClearsTheSuspicion) {
  Player player({});
  player.run_to(10'500);
  ASSERT_EQ(player.looks.size(), 1u);
  player.beat(1, 5);
  player.run_to(20'000);
  EXPECT_EQ(player.facts.size(), 1u);
  EXPECT_TRUE(player.stops.empty());
  player.run_to(40'000);
  EXPECT_EQ(player.reason(), "still") << "watched as before";
}

TEST(Supervisor, BudgetIsTakenWithTwoLooksAndIsNeverCalledStill) {
  SupervisorLimits limits;
  limits.budget_ms = 30'000;
  Player player(limits);
  std::int64_t moved = 0;
  while (player.now < 40'000) {
    player.beat(0, ++moved);
    player.step();
  }
  EXPECT_EQ(player.reason(), "budget");
  EXPECT_EQ(player.looks, (std::vector<int>{0, 1}));
  EXPECT_TRUE(player.suspects.empty());
}

TEST(Supervisor, BadEndGivesPeersTheirGrace) {
  Player player({});
  std::int64_t moved = 0;
  const auto live_to = [&](std::int64_t until) {
    while (player.now < until) {
      player.beat(1, ++moved);
      player.step();
    }
  };
  live_to(3'000);
  player.supervisor.ended(0, false, "exited with 7", player.now);
  live_to(7'900);
  EXPECT_TRUE(player.looks.empty());
  live_to(9'000);
  EXPECT_EQ(player.reason(), "peer_ended");
  EXPECT_EQ(player.looks, std::vector<int>{0});
}

TEST(Supervisor, GoodEndOfAPeerIsNotBad) {
  Player player({});
  player.supervisor.ended(0, true, "exited with 0", player.now);
  std::int64_t moved = 0;
  while (player.now < 60'000) {
    player.beat(1, ++moved);
    player.step();
  }
  EXPECT_TRUE(player.stops.empty());
  EXPECT_FALSE(player.supervisor.all_well());
  player.supervisor.ended(1, true, "exited with 0", player.now);
  EXPECT_TRUE(player.supervisor.all_well());
}

TEST(Supervisor, PeersThatEndWithinTheirGraceNeedNoStop) {
  Player player({});
  player.supervisor.ended(0, false, "exited with 7", player.now);
  player.run_to(2'000);
  player.supervisor.ended(1, false, "exited with 1", player.now);
  player.run_to(60'000);
  EXPECT_TRUE(player.stops.empty());
  EXPECT_TRUE(player.supervisor.all_ended());
  EXPECT_FALSE(player.supervisor.all_well());
}

TEST(Supervisor, InterruptStopsInAnyState) {
  for (const std::int64_t at : {500, 10'200, 11'000}) {  // watching, in a look, between looks
    Player player({});
    player.run_to(at);
    player.supervisor.interrupt(2);
    player.run_to(at + 1'000);
    EXPECT_EQ(player.reason(), "interrupted") << at;
  }
}

TEST(Supervisor, LoadingUsesProcessorTimeForABoundedTime) {
  Player player({}, 0);
  player.supervisor.started(0, 0);
  std::int64_t cpu = 0;
  while (player.now < 200'000 && player.stops.empty()) {
    player.supervisor.seen(0, 'R', cpu += kTick, player.now);
    player.step();
  }
  EXPECT_EQ(player.reason(), "still");
  EXPECT_GT(player.now, 120'000);
}

TEST(Supervisor, ProcessorTimeIsNoMovementOnceCountersExist) {
  Player player({}, 1);
  std::int64_t cpu = 0;
  while (player.now < 20'000 && player.stops.empty()) {
    player.supervisor.seen(0, 'R', cpu += kTick, player.now);
    player.step();
  }
  EXPECT_EQ(player.reason(), "still");
}

TEST(Supervisor, RowsOfTheTrainingThreadAreMovementFactsAreNot) {
  Player moving({}, 1);
  Player silent({}, 1);
  while (moving.now < 30'000) {
    moving.supervisor.heard(Event::of(0, 0, Sample{"loss", 1, 1.0}), moving.now);
    silent.supervisor.heard(Event::of(0, 0, Fact{"a", "b"}), silent.now);
    moving.step();
    silent.step();
  }
  EXPECT_TRUE(moving.stops.empty());
  EXPECT_EQ(silent.reason(), "still");
}

}  // namespace
}  // namespace harness
