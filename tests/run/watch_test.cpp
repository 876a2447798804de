// Processes that are asked for their stacks at once: together they take as long as one.
#include "harness/run/watch.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <unistd.h>

#include <gtest/gtest.h>

#include "harness/run/processes/watched_process.h"
#include "tests/fakes/temp_folder.h"

namespace harness {
namespace {

constexpr std::chrono::seconds kNever(20);  // only where the test fails

// Opens when so many stand before it.
class Gate {
 public:
  explicit Gate(int count) : left_(count) {}
  bool pass() {
    std::unique_lock lock(mutex_);
    if (--left_ <= 0) changed_.notify_all();
    return changed_.wait_for(lock, kNever, [&] { return left_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_;
};

TEST(Watch, ProcessesAreAskedForTheirStacksAtOnce) {
  const fakes::TempFolder folder;
  std::map<int, std::string> told;
  RunnerHooks hooks;
  hooks.on_event = [&](const Event& event) {
    if (event.kind != Observation::kKind) return;
    const auto seen = event.body.get<Observation>();
    told[seen.process_observed] = seen.threads.front().frames.front();
  };
  EventSink sink(folder.path(), hooks);
  Gate gate(3);
  Watch watch({}, 0, sink, [&](int process, Observation& seen) {
    const std::string met = gate.pass() ? "met" : "alone";
    seen.threads.front().frames = {met + " " + std::to_string(process)};
    return false;
  });
  std::deque<FoundProcess> processes;
  for (int process = 0; process < 3; ++process)
    watch.started(process, getpid(), processes.emplace_back(getpid()));
  watch.look_for_user();
  sink.flush();
  EXPECT_EQ(told, (std::map<int, std::string>{{0, "met 0"}, {1, "met 1"}, {2, "met 2"}}));
}

TEST(PythonFrames, AProcessAndItsChildrenAreAskedAtOnce) {
  Gate gate(3);
  Observation seen;
  seen.look = 1;
  seen.threads.emplace_back();
  seen.children = {{"python3", 8, "S", 0}, {"sh", 9, "S", 0}, {"pt_data_worker", 10, "S", 0}};
  put_python_frames(
      7,
      [&](pid_t pid, bool quickly) {
        return PythonStack{{(gate.pass() ? "met " : "alone ") + std::to_string(pid)},
                           quickly ? "" : "a way"};
      },
      seen);
  EXPECT_EQ(seen.threads.front().frames, std::vector<std::string>{"met 7"});
  EXPECT_EQ(seen.children[0].frames, std::vector<std::string>{"met 8"});
  EXPECT_TRUE(seen.children[1].frames.empty());
  EXPECT_EQ(seen.children[2].frames, std::vector<std::string>{"met 10"});
  EXPECT_EQ(seen.way_to_stacks, "a way");
}

}  // namespace
}  // namespace harness
