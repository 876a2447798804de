// Every item is worked on once, whoever takes it, also where calls stand inside of others or come from several threads at once.
#include "oracles/parallel.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace {

using oracles::parallel_for;

// How often each of `count` items was worked on.
std::vector<int> worked_on(std::int64_t count, std::int64_t grain, int threads) {
  std::vector<std::atomic<int>> times(static_cast<std::size_t>(count));
  parallel_for(count, grain, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++times[static_cast<std::size_t>(i)];
  });
  return {times.begin(), times.end()};
}

TEST(Parallel, EveryItemIsWorkedOnOnce) {
  for (const std::int64_t count : {0, 1, 7, 64, 1000}) {
    for (const std::int64_t grain : {1, 3, 64, 5000}) {
      for (const int threads : {0, 1, 2, 9}) {
        EXPECT_EQ(worked_on(count, grain, threads),
                  std::vector<int>(static_cast<std::size_t>(count), 1))
            << count << " " << grain << " " << threads;
      }
    }
  }
}

TEST(Parallel, CallsMayStandInsideOfOthersAndBesideThem) {
  std::atomic<std::int64_t> done = 0;
  const auto nested = [&] {
    parallel_for(20, 1, 0, [&](std::int64_t, std::int64_t) {
      parallel_for(30, 2, 0, [&](std::int64_t begin, std::int64_t end) { done += end - begin; });
    });
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(nested);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(done, 4 * 20 * 30);
}

TEST(Parallel, AnExceptionComesBackAndTheNextCallIsWhole) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_THROW(parallel_for(100,
                              1,
                              0,
                              [](std::int64_t begin, std::int64_t) {
                                if (begin == 40) throw std::runtime_error("40");
                              }),
                 std::runtime_error);
    EXPECT_EQ(worked_on(100, 1, 0), std::vector<int>(100, 1));
  }
}

}  // namespace
