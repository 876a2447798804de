// Who may come in where the agents of ranks do, and what is said to everybody else. Strangers here are plain sockets.
#include "harness/run/join/door.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/run/clock.h"
#include "harness/run/join/standing.h"
#include "nsa/base/error.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/mutate.h"

namespace harness {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DoorTest : public ::testing::Test {
 protected:
  [[nodiscard]] Link stranger() const {
    return {connect_to("127.0.0.1", door_.port(), 10'000), kMaxMessageBytes};
  }

  [[nodiscard]] Join join_of(int rank) const {
    Join join;
    join.token = token_.of_agent();
    join.rank = rank;
    join.world = 2;
    join.address = "127.0.0.1";
    join.port = rank == 0 ? 4711 : 0;
    join.host = "here";
    join.sources = "5001ce";
    return join;
  }

  // Lets the door look until so many have been answered.
  void look_until(std::size_t answered) {
    const std::int64_t until_ms = monotonic_ms() + 30'000;
    while (2 - door_.missing().size() + door_.refused().size() < answered) {
      ASSERT_LT(monotonic_ms(), until_ms);
      std::vector<pollfd> waited;
      door_.add_to(waited);
      (void)poll(waited.data(), waited.size(), 50);
      door_.look();
    }
  }

  static std::string answer_to(Link& link) {
    std::string answer;
    const std::int64_t until_ms = monotonic_ms() + 10'000;
    while (answer.empty() && link.is_open() && monotonic_ms() < until_ms) {
      link.read([&](std::string_view line) { answer = line; });
    }
    return answer;
  }

  Token token_ = Token::drawn();
  Door door_{"127.0.0.1", 0, token_, 2, "5001ce"};
};

// A scan of ports, or a monitor that leaves its connections open.
TEST_F(DoorTest, ThoseWhoSayNothingKeepNobodyWaiting) {
  constexpr int kIdle =
      300;  // ten seconds for each 64 of them would be over the deadline of look_until()
  std::vector<Link> idle;
  for (int i = 0; i < kIdle; ++i) {
    idle.push_back(stranger());
    door_.look();
  }
  Link zero = stranger();
  Link one = stranger();
  zero.send(join_text(join_of(0)));
  one.send(join_text(join_of(1)));
  const std::int64_t until_ms = monotonic_ms() + 30'000;
  while (!door_.complete()) {
    ASSERT_LT(monotonic_ms(), until_ms);
    std::vector<pollfd> waited;
    door_.add_to(waited);
    (void)poll(waited.data(), waited.size(), 50);
    door_.look();
  }
}

TEST_F(DoorTest, LetsEachRankInOnceAndThenListensNoMore) {
  Link one = stranger();
  Link zero = stranger();
  one.send(join_text(join_of(1)));
  zero.send(join_text(join_of(0)));
  look_until(2);
  ASSERT_TRUE(door_.complete());
  const int port = door_.port();
  const std::vector<Joined> joined = door_.close();
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].join.rank, 0);
  EXPECT_EQ(joined[0].join.port, 4711);
  EXPECT_EQ(joined[1].join.rank, 1);
  EXPECT_EQ(joined[1].join.token, "") << "it is of no use any more";
  EXPECT_THAT(error_of([&] { (void)connect_to("127.0.0.1", port, 1'000); }),
              HasSubstr("cannot connect"));
}

TEST_F(DoorTest, TurnsAwayWhoShowsNoTokenAndSaysWhy) {
  Join wrong = join_of(0);
  wrong.token.back() = wrong.token.back() == '0' ? '1' : '0';
  Join none = join_of(0);
  none.token = "";
  Join controllers = join_of(0);
  controllers.token = token_.of_controller();
  for (const Join& join : {wrong, none, controllers}) {
    Link link = stranger();
    link.send(join_text(join));
    look_until(door_.refused().size() + 1);
    EXPECT_EQ(answer_to(link), "refused wrong token");
    EXPECT_THAT(door_.refused().back(), HasSubstr("127.0.0.1: wrong token"));
  }
  EXPECT_THAT(door_.missing(), ElementsAre(0, 1));
}

TEST_F(DoorTest, TurnsAwayASecondRankZero) {
  Link first = stranger();
  first.send(join_text(join_of(0)));
  look_until(1);
  Link second = stranger();
  second.send(join_text(join_of(0)));
  look_until(2);
  EXPECT_EQ(answer_to(second), "refused a second rank 0");
  EXPECT_TRUE(first.is_open());
}

TEST_F(DoorTest, TurnsAwayWhoWasBuiltFromOtherSources) {
  Join join = join_of(0);
  join.sources = "other";
  Link link = stranger();
  link.send(join_text(join));
  look_until(1);
  EXPECT_THAT(answer_to(link), HasSubstr("built from other sources (other)"));
}

TEST_F(DoorTest, GarbageHalfALineAndALongLineAreTurnedAway) {
  Link garbage = stranger();
  garbage.send("GET / HTTP/1.1");
  look_until(1);
  EXPECT_EQ(answer_to(garbage), "refused it does not speak as an agent");
  {
    const Fd half = connect_to("127.0.0.1", door_.port(), 10'000);
    ASSERT_EQ(write(half.get(), "join {", 6), 6);
  }
  look_until(2);
  EXPECT_THAT(door_.refused().back(), HasSubstr("in the midst of a line"));
  Link longer = stranger();
  longer.send("join " + std::string(kMaxJoinBytes, 'x'));
  look_until(3);
  EXPECT_THAT(door_.refused().back(), HasSubstr("a line that is too long"));
}

TEST_F(DoorTest, ManyStrangersAreCountedAndNotKept) {
  for (std::size_t i = 0; i < 40; ++i) {
    Link link = stranger();
    link.send("knock");
    for (int round = 0; round < 1'000 && link.is_open(); ++round) {
      door_.look();
      link.read([](std::string_view) {});
    }
    EXPECT_FALSE(link.is_open());
  }
  EXPECT_EQ(door_.refused().size(), 20u);
  EXPECT_EQ(door_.refused_unnamed(), 20);
}

TEST_F(DoorTest, AnotherNumberOfRanksIsTheLaunchersMistake) {
  Join join = join_of(0);
  join.world = 3;
  Link link = stranger();
  link.send(join_text(join));
  EXPECT_THAT(error_of([&] { look_until(3); }), HasSubstr("started 3 processes"));
}

TEST_F(DoorTest, RankThatIsLostBeforeTheStartIsNamed) {
  {
    Link link = stranger();
    link.send(join_text(join_of(1)));
    look_until(1);
  }
  EXPECT_THAT(error_of([&] { look_until(3); }), HasSubstr("rank 1 joined from here and was lost"));
}

TEST_F(DoorTest, WhoeverWaitsHearsThatSomebodyIsThere) {
  Link link = stranger();
  link.send(join_text(join_of(1)));
  look_until(1);
  std::string said;
  const std::int64_t until_ms = monotonic_ms() + 30'000;
  while (said.empty() && monotonic_ms() < until_ms) {
    door_.look();
    link.read([&](std::string_view line) { said = line; });
  }
  EXPECT_EQ(said, "alive");
}

// ---- messages -----------------------------------------------------------------------------------------------------------

Start some_start() {
  Start start;
  start.token = "secret";
  start.argv = {"/bin/worker", "--rank", "1"};
  start.environment = {"A=b c", "D=\"\n"};
  start.out_path = "/runs/1.out";
  start.err_path = "/runs/1.err";
  start.probe = "/runs/probe";
  start.now_ms = 12;
  start.link_deadline_ms = 20'000;
  start.term_grace_ms = 2'000;
  start.store = "10.0.0.1";
  start.port = 4711;
  return start;
}

End some_end() {
  End end;
  end.status.signal = 9;
  end.status.rss_peak_bytes = 1 << 20;
  end.memory = MemoryKill::somebody;
  end.by_launcher = true;
  return end;
}

TEST(JoinMessages, ComeBackAsTheyWere) {
  const Start start = read_start(message_of(start_text(some_start())).rest);
  EXPECT_EQ(start.argv, some_start().argv);
  EXPECT_EQ(start.environment, some_start().environment);
  EXPECT_EQ(start.store, "10.0.0.1");
  EXPECT_EQ(start_text(start), start_text(some_start()));
  EXPECT_EQ(end_text(read_end(message_of(end_text(some_end())).rest)), end_text(some_end()));
  Observation seen;
  seen.state = "S";
  seen.threads.resize(2);
  EXPECT_EQ(look_text(read_look(message_of(look_text(seen)).rest)), look_text(seen));
}

TEST(JoinMessages, AnEndIsEitherACodeOrASignal) {
  End end = some_end();
  end.status.exit_code = 0;
  EXPECT_THAT(error_of([&] { (void)read_end(message_of(end_text(end)).rest); }),
              HasSubstr("either an exit code or a signal"));
}

TEST(JoinMessages, DamagedOnesAreRefusedOrWithinTheirRanges) {
  const std::vector<std::string> whole = {join_text({"t", 1, 2, "10.0.0.1", 0, "h", "m", "s"}),
                                          start_text(some_start()),
                                          end_text(some_end()),
                                          look_text(Observation{})};
  fakes::Mutator mutate(20'260'101, 200);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string line = mutate(whole[static_cast<std::size_t>(i) % whole.size()]);
    const Message message = message_of(line);
    try {
      if (message.word == "join") {
        const Join join = read_join(message.rest);
        EXPECT_GE(join.rank, 0);
        EXPECT_LT(join.rank, join.world);
        EXPECT_LE(join.port, 65535);
      } else if (message.word == "start") {
        const Start start = read_start(message.rest);
        EXPECT_FALSE(start.argv.empty());
        EXPECT_GT(start.link_deadline_ms, 0);
      } else if (message.word == "ended") {
        const End end = read_end(message.rest);
        EXPECT_NE(end.status.signal != 0, end.status.exit_code >= 0);
      } else if (message.word == "look") {
        (void)read_look(message.rest);
      }
    } catch (const nsa::Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5'000);
}

// ---- who a launcher says that a process is ------------------------------------------------------------------------------

Standing standing_in(const std::map<std::string, std::string>& variables) {
  return standing_of([&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

TEST(StandingTest, IsReadFromEveryLaunchersNames) {
  for (const auto& [rank, world] : {std::pair{"RANK", "WORLD_SIZE"},
                                    std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    std::pair{"PMI_RANK", "PMI_SIZE"},
                                    std::pair{"SLURM_PROCID", "SLURM_NTASKS"}}) {
    const Standing standing = standing_in({{rank, "3"}, {world, "8"}});
    EXPECT_EQ(standing.rank, 3) << rank;
    EXPECT_EQ(standing.world, 8) << rank;
  }
}

// Every process of a Slurm job has Slurm's names, also those that mpirun or torchrun started in it.
TEST(StandingTest, TheInnerLauncherIsBelieved) {
  const std::map<std::string, std::string> slurm = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}};
  auto mpirun = slurm;
  mpirun.insert({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(standing_in(mpirun).rank, 1);
  auto torchrun = mpirun;
  torchrun.insert({{"RANK", "5"}, {"WORLD_SIZE", "6"}});
  EXPECT_EQ(standing_in(torchrun).rank, 5);
}

TEST(StandingTest, WhatIsNoneIsRefusedByName) {
  EXPECT_THAT(error_of([] { (void)standing_in({}); }), HasSubstr("found none of RANK"));
  EXPECT_THAT(error_of([] { (void)standing_in({{"RANK", "0"}}); }), HasSubstr("WORLD_SIZE"));
  EXPECT_THAT(error_of([] {
                (void)standing_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
              }),
              HasSubstr("wanted less than 2"));
  EXPECT_THAT(error_of([] {
                (void)standing_in({{"RANK", "-1"}, {"WORLD_SIZE", "2"}});
              }),
              HasSubstr("RANK"));
}

}  // namespace
}  // namespace harness
