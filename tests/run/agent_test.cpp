// The agent beside a rank, and a controller that is this test: what the agent does when that one is not what it says, ends, or
// says nothing any more. No keeper and no launcher is there to clean up.
#include "harness/run/join/agent.h"

#include <deque>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/run/build_info.h"
#include "harness/run/clock.h"
#include "harness/run/join/door.h"
#include "nsa/base/file.h"
#include "tests/fakes/where.h"
#include "tests/run/run_support.h"

namespace harness {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kPatienceMs = 30'000;

class AgentTest : public ::testing::Test {
 protected:
  // One rank; its agent reads the token that it is given.
  void start_agent(const std::string& token) {
    ProcessRequest request;
    request.argv = {fakes::programs() + "/fake_agent", kJoinVerb};
    request.environment = {
        "ASAN_OPTIONS=detect_leaks=0",
        "RANK=0",
        "WORLD_SIZE=1",
        std::string(kControllerVariable) + "=127.0.0.1:" + std::to_string(door_.port()),
        std::string(kTokenVariable) + "=" + token};
    request.out_path = folder_ / "agent.out";
    request.err_path = folder_ / "agent.err";
    agent_ = std::make_unique<Process>(Process::spawn(request));
  }

  void let_in() {
    const std::int64_t until_ms = monotonic_ms() + kPatienceMs;
    while (!door_.complete() && door_.refused().empty()) {
      ASSERT_LT(monotonic_ms(), until_ms);
      door_.look();
    }
    if (door_.complete()) link_ = std::move(door_.close().front().link);
  }

  [[nodiscard]] Start start_of(const std::string& mood, std::int64_t deadline_ms = 600'000) const {
    Start start;
    start.token = token_.of_controller();
    start.argv = {fakes::programs() + "/fake_rank", "--rank", "0"};
    start.environment = {"ASAN_OPTIONS=detect_leaks=0", "FAKE_MOOD=" + mood};
    start.out_path = folder_ / "rank.out";
    start.err_path = folder_ / "rank.err";
    start.probe = folder_ / "probe";
    start.link_deadline_ms = deadline_ms;
    start.term_grace_ms = 400;
    start.store = "127.0.0.1";
    start.port = 4711;
    return start;
  }

  // The next message with this word, "" where the link ends before.
  std::string hear(const std::string& word) {
    for (const std::int64_t until_ms = monotonic_ms() + kPatienceMs; monotonic_ms() < until_ms;) {
      link_->read([&](std::string_view line) { unread_.emplace_back(line); });
      while (!unread_.empty()) {  // what comes behind it stays for the next call
        const std::string line = unread_.front();
        unread_.pop_front();
        if (message_of(line).word == word) return std::string(message_of(line).rest);
      }
      if (!link_->is_open()) break;
    }
    return "none";
  }

  pid_t start_rank(const std::string& mood) { return start_rank(start_of(mood)); }
  pid_t start_rank(const Start& start) {
    link_->send(start_text(start));
    return static_cast<pid_t>(read_number(hear("started"), 1, 1 << 30));
  }

  ExitStatus end_of_agent() {
    pollfd wait{agent_->pidfd(), POLLIN, 0};
    EXPECT_EQ(poll(&wait, 1, kPatienceMs), 1);
    return agent_->exited() ? agent_->reap() : ExitStatus{};
  }

  [[nodiscard]] std::string said() const { return nsa::read_file(folder_ / "agent.err", 1 << 20); }

  fakes::TempFolder folder_;
  Token token_ = Token::drawn();
  Door door_{"127.0.0.1", 0, token_, 1, built_source_hash()};
  std::unique_ptr<Process> agent_;
  std::unique_ptr<Link> link_;
  std::deque<std::string> unread_;
};

TEST_F(AgentTest, EndsItsRankWhenTheLinkEnds) {
  start_agent(token_.text());
  let_in();
  const pid_t rank = start_rank("hang");
  EXPECT_TRUE(test::is_alive(rank));
  link_.reset();
  EXPECT_EQ(end_of_agent().exit_code, 6);
  EXPECT_FALSE(test::is_alive(rank));
  EXPECT_THAT(said(), HasSubstr("the controller is lost"));
}

TEST_F(AgentTest, EndsItsRankWhenNothingComesForTheDeadline) {
  start_agent(token_.text());
  let_in();
  const pid_t rank = start_rank(start_of("hang", 4'000));
  EXPECT_EQ(end_of_agent().exit_code, 6) << "the link is open, as where a cable was cut";
  EXPECT_FALSE(test::is_alive(rank));
  EXPECT_THAT(said(), HasSubstr("nothing came from it for 4 s"));
}

TEST_F(AgentTest, StartsNothingForWhoDoesNotKnowTheOtherHalf) {
  start_agent(token_.text());
  let_in();
  Start start = start_of("hang");
  start.token = token_.of_agent();  // all that whoever took the port over has seen
  link_->send(start_text(start));
  EXPECT_EQ(end_of_agent().exit_code, 3);
  EXPECT_THAT(said(), HasSubstr("is not the controller"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "probe"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "rank.out"));
}

TEST_F(AgentTest, IsTurnedAwayWithAWrongToken) {
  start_agent(Token::drawn().text());
  let_in();
  EXPECT_EQ(end_of_agent().exit_code, 3);
  EXPECT_THAT(said(), HasSubstr("wrong token"));
}

TEST_F(AgentTest, GarbageOfAControllerEndsBoth) {
  start_agent(token_.text());
  let_in();
  const pid_t rank = start_rank("hang");
  link_->send("signal 4711 group");
  EXPECT_EQ(end_of_agent().exit_code, 3);
  EXPECT_FALSE(test::is_alive(rank));
}

TEST_F(AgentTest, TellsTheEndAndWaitsUntilItIsLetGo) {
  start_agent(token_.text());
  let_in();
  (void)start_rank("crash");
  const End end = read_end(hear("ended"));
  EXPECT_EQ(end.status.signal, SIGSEGV);
  EXPECT_FALSE(end.by_launcher);
  link_->send("end");
  EXPECT_EQ(end_of_agent().exit_code, 0) << "or a launcher would end the other ranks";
}

// A launcher that ends a job signals all of it, in any order.
TEST_F(AgentTest, RankThatIsAskedToEndJustBeforeItsAgentWasEndedByTheLauncher) {
  start_agent(token_.text());
  let_in();
  const pid_t rank = start_rank("hang");
  (void)hear("line");  // it has begun
  kill(rank, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  agent_->signal(SIGTERM);
  const End end = read_end(hear("ended"));
  EXPECT_EQ(end.status.signal, SIGTERM);
  EXPECT_TRUE(end.by_launcher);
}

TEST_F(AgentTest, RankThatCrashedBeforeTheLauncherAskedIsNotExcused) {
  start_agent(token_.text());
  let_in();
  const pid_t rank = start_rank("hang");
  (void)hear("line");  // it has begun
  kill(rank, SIGABRT);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // else either signal may end it
  agent_->signal(SIGTERM);
  const End end = read_end(hear("ended"));
  EXPECT_EQ(end.status.signal, SIGABRT);
  EXPECT_FALSE(end.by_launcher);
}

}  // namespace
}  // namespace harness
