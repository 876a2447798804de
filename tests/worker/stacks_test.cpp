// The stacks that a process takes of its own threads.
#include "harness/worker/stacks.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

namespace harness {
namespace {

using Frames = std::vector<std::string>;

class Pipe {
 public:
  Pipe() {
    if (pipe(ends_.data()) != 0) ADD_FAILURE() << "no pipe";
  }
  ~Pipe() {
    for (const int end : ends_) close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void wait() const {
    char byte = 0;
    while (read(ends_[0], &byte, 1) < 0) {
    }
  }
  void release() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }

 private:
  std::array<int, 2> ends_{};
};

// Waits in two places, in the same way.
[[gnu::noinline]] void wait_twice(const Pipe& first, const Pipe& second) {
  first.wait();
  second.wait();
}

// The frames of the thread once it reads; empty after a long time of trying.
Frames frames_of(const std::string& name) {
  constexpr int kTries = 500;
  for (int i = 0; i < kTries; ++i) {
    for (const ThreadStack& stack : sample_stacks()) {
      const bool named = stack.thread.compare(0, name.size(), name) == 0;
      if (!named || stack.frames.empty()) continue;
      if (stack.frames.front().find("read") != std::string::npos) return stack.frames;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

TEST(Stacks, TwoPlacesOfOneFunctionAreTwoFramesAndOnePlaceIsOne) {
  prepare_stacks();
  const Pipe first;
  const Pipe second;
  const Pipe arrived;
  std::thread waiter([&] {
    pthread_setname_np(pthread_self(), "waits");
    wait_twice(first, second);
    arrived.wait();
  });
  const Frames at_first = frames_of("waits");
  ASSERT_FALSE(at_first.empty());
  EXPECT_EQ(frames_of("waits"), at_first);
  first.release();
  constexpr int kTries = 500;
  Frames at_second = frames_of("waits");
  for (int i = 0; i < kTries && at_second == at_first; ++i) at_second = frames_of("waits");
  EXPECT_NE(at_second, at_first);
  EXPECT_EQ(at_second.size(), at_first.size());
  second.release();
  arrived.release();
  waiter.join();
}

TEST(Stacks, AFrameNamesItsModuleAndThePlaceInIt) {
  prepare_stacks();
  for (const ThreadStack& stack : sample_stacks()) {
    for (const std::string& frame : stack.frames) {
      EXPECT_TRUE(frame == "?" || frame.find("+0x") != std::string::npos) << frame;
    }
  }
}

}  // namespace
}  // namespace harness
