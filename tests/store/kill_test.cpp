// What is left when a controller is killed at any moment, and what several writers do to each other.
#include <SQLiteCpp/SQLiteCpp.h>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "harness/run/processes/spawn_process.h"
#include "harness/run/record/run_folder.h"
#include "harness/store/store.h"
#include "tests/fakes/where.h"
#include "tests/run/run_support.h"

namespace harness {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class KillTest : public ::testing::Test {
 protected:
  Process start(const std::string& name, const std::vector<std::string>& arguments) {
    ProcessRequest request;
    request.argv = {fakes::programs() + "/fake_controller"};
    request.argv.insert(request.argv.end(), arguments.begin(), arguments.end());
    request.environment = {"ASAN_OPTIONS=detect_leaks=0"};
    request.out_path = folder_ / (name + ".out");
    request.err_path = folder_ / (name + ".err");
    return Process::spawn(request);
  }

  std::string text(const std::string& name) {
    std::ifstream file(folder_ / name);
    std::stringstream content;
    content << file.rdbuf();
    return content.str();
  }

  template <typename Condition>
  static bool wait_for(milliseconds deadline, const Condition& condition) {
    const auto until = steady_clock::now() + deadline;
    while (!condition()) {
      if (steady_clock::now() > until) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }

  void expect_sound() {
    SQLite::Database database(db_, SQLite::OPEN_READWRITE);
    EXPECT_EQ(database.execAndGet("PRAGMA integrity_check").getString(), "ok");
    EXPECT_EQ(database.execAndGet("SELECT count(*) FROM pragma_foreign_key_check").getInt(), 0);
  }

  // Every run's cases are a prefix without holes, all but the last one ended and judged.
  void expect_prefixes() {
    const auto store = Store::open_read_only(db_);
    for (const RunRecord& run : store->runs(0, 10'000)) {
      const auto cases = store->cases(run.id);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        ASSERT_EQ(cases[i].position, static_cast<int>(i)) << run.name;
        if (i + 1 == cases.size() && !run.complete) continue;
        ASSERT_TRUE(cases[i].judgement) << run.name;
        ASSERT_EQ(cases[i].digest.metrics.at(0).second, static_cast<double>(i)) << run.name;
      }
    }
  }

  fakes::TempFolder folder_;
  std::string db_ = folder_ / "runs.db";
};

TEST_F(KillTest, WriterKilledAtAnyMomentLeavesAReadableDatabase) {
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    const std::string name = "writer" + std::to_string(i);
    Process writer = start(name, {"write", db_, name, "1000000"});
    if (i % 2 == 0) {  // in the midst of cases; otherwise anywhere from the first instruction on
      ASSERT_TRUE(wait_for(milliseconds(30'000), [&] { return text(name + ".out") == "begun\n"; }))
          << text(name + ".err");
    }
    std::this_thread::sleep_for(milliseconds(std::uniform_int_distribution<>(0, 150)(random)));
    writer.signal(SIGKILL);
    ASSERT_TRUE(wait_for(milliseconds(10'000), [&] { return writer.exited(); }));
    EXPECT_EQ(writer.reap().signal, SIGKILL) << text(name + ".err");
    expect_sound();
  }
  expect_prefixes();
}

TEST_F(KillTest, TwoWritersAtOnceLoseNothing) {
  constexpr int kCases = 150;
  std::vector<Process> writers;
  for (const char* name : {"a", "b", "c"}) {
    writers.push_back(start(name, {"write", db_, name, std::to_string(kCases)}));
  }
  for (Process& writer : writers) {
    ASSERT_TRUE(wait_for(milliseconds(120'000), [&] { return writer.exited(); }));
    EXPECT_EQ(writer.reap().exit_code, 0) << text("a.err") << text("b.err") << text("c.err");
  }
  expect_sound();
  expect_prefixes();
  const auto store = Store::open_read_only(db_);
  const auto runs = store->runs(0, 10'000);
  ASSERT_EQ(runs.size(), 3u);
  for (const RunRecord& run : runs) {
    EXPECT_TRUE(run.complete);
    EXPECT_EQ(store->cases(run.id).size(), std::size_t{kCases});
  }
}

TEST_F(KillTest, ManyProcessesMayMakeTheSameDatabase) {
  for (int round = 0; round < 10; ++round) {
    db_ = folder_ / ("new" + std::to_string(round) + ".db");
    std::vector<Process> writers;
    for (int i = 0; i < 6; ++i) {
      const std::string name = std::to_string(round) + "-" + std::to_string(i);
      writers.push_back(start(name, {"write", db_, name, "1"}));
    }
    for (int i = 0; i < 6; ++i) {
      Process& writer = writers[static_cast<std::size_t>(i)];
      ASSERT_TRUE(wait_for(milliseconds(60'000), [&] { return writer.exited(); }));
      EXPECT_EQ(writer.reap().exit_code, 0)
          << text(std::to_string(round) + "-" + std::to_string(i) + ".err");
    }
    EXPECT_EQ(Store::open_read_only(db_)->runs(0, 10'000).size(), 6u);
  }
}

TEST_F(KillTest, ControllerKilledAtAnyMomentLeavesNoProcess) {
  std::mt19937 random(2);
  for (int i = 0; i < 8; ++i) {
    const std::string name = "controller" + std::to_string(i);
    const std::string runs = folder_ / name;
    Process controller = start(name, {"run", db_, runs, fakes::programs() + "/fake_rank"});
    ASSERT_TRUE(wait_for(milliseconds(30'000), [&] { return !text(name + ".out").empty(); }))
        << text(name + ".err");
    std::this_thread::sleep_for(milliseconds(std::uniform_int_distribution<>(0, 1'500)(random)));
    controller.signal(SIGKILL);
    ASSERT_TRUE(wait_for(milliseconds(10'000), [&] { return controller.exited(); }));
    EXPECT_EQ(controller.reap().signal, SIGKILL) << text(name + ".err");
    std::istringstream words(text(name + ".out"));
    std::string word;
    std::int64_t pid = 0;
    while (words >> word >> pid) {
      EXPECT_TRUE(wait_for(milliseconds(5'000), [&] { return !test::is_alive(pid); })) << pid;
    }
    expect_sound();
    for (const auto& run : std::filesystem::directory_iterator(runs)) {
      if (!has_event_log(run.path())) continue;
      int events = 0;
      EXPECT_NO_THROW((void)read_event_log(run.path(), [&](const Event&) { ++events; }));
    }
  }
  const auto store = Store::open_read_only(db_);
  EXPECT_GE(store->runs(0, 10'000).size(), 8u);
}

}  // namespace
}  // namespace harness
