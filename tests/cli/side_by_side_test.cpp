// Work that fits runs together, nothing runs twice, and a failure ends what has not begun.
#include "harness/cli/running/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

namespace cli = harness::cli;
using harness::Capacity;
using harness::Needs;
using harness::Place;

Needs cores(int count) {
  return {count, 1.0, 0, 0.0, false, 0.0};
}

TEST(SideBySide, EveryPieceRunsOnceAndNeverTooMany) {
  std::vector<Needs> pieces;
  for (int i = 0; i < 200; ++i) pieces.push_back(i % 17 == 0 ? Needs{} : cores(1 + i % 3));
  std::mutex mutex;
  std::vector<std::size_t> done;
  int taken = 0;
  bool too_many = false;
  cli::run_side_by_side(pieces, {4, 64.0, {}}, [&](std::size_t piece, const Place& /*place*/) {
    const int needed = pieces[piece].alone ? 4 : pieces[piece].cores;
    {
      const std::lock_guard lock(mutex);
      taken += needed;
      too_many = too_many || taken > 4;
    }
    std::this_thread::yield();
    const std::lock_guard lock(mutex);
    taken -= needed;
    done.push_back(piece);
  });
  EXPECT_FALSE(too_many);
  std::sort(done.begin(), done.end());
  ASSERT_EQ(done.size(), pieces.size());
  for (std::size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i], i);
}

TEST(SideBySide, InTheGivenOrderNoneBeginsBeforeOneThatStandsBeforeIt) {
  std::vector<Needs> pieces;
  for (int i = 0; i < 300; ++i) {
    pieces.push_back(i % 7 == 0 ? Needs{} : cores(1 + i % 4));
    pieces.back().seconds = i % 5;
  }
  std::atomic<std::size_t> begun = 0;  // a piece is handed to its thread while the next ones wait
  std::atomic<bool> early = false;
  const auto run = [&](std::size_t piece, const Place& /*place*/) {
    // Pieces that run at the same time may come here in any order: at most as many as there are cores.
    early = early || piece > begun + 4;
    ++begun;
  };
  cli::run_side_by_side(pieces, {4, 64.0, {}}, run, cli::Order::as_given);
  EXPECT_FALSE(early);
  EXPECT_EQ(begun, pieces.size());
}

TEST(SideBySide, WhatFitsReallyRunsAtTheSameTime) {
  std::barrier all_here(3);  // one alone would wait for ever
  std::atomic<int> met = 0;
  cli::run_side_by_side(
      {cores(1), cores(1), cores(1)}, {3, 8.0, {}}, [&](std::size_t, const Place&) {
        all_here.arrive_and_wait();
        ++met;
      });
  EXPECT_EQ(met, 3);
}

TEST(SideBySide, OneAfterTheOtherKeepsTheirOrder) {
  std::vector<std::size_t> order;
  cli::run_side_by_side(std::vector<Needs>(20),
                        {8, 64.0, {}},
                        [&](std::size_t piece, const Place&) { order.push_back(piece); });
  ASSERT_EQ(order.size(), 20U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(SideBySide, WhatMayTakeLongestComesFirstAndWhatRunsAloneLast) {
  std::vector<Needs> pieces = {Needs{}, cores(1), cores(1), cores(1), Needs{}, cores(1)};
  pieces[0].seconds = 900.0;
  pieces[3].seconds = 600.0;
  pieces[5].seconds = 600.0;
  std::vector<std::size_t> order;
  cli::run_side_by_side(
      pieces, {1, 64.0, {}}, [&](std::size_t piece, const Place&) { order.push_back(piece); });
  EXPECT_THAT(order, testing::ElementsAre(3, 5, 1, 2, 0, 4));
}

TEST(SideBySide, AFailureIsToldWhenAllHaveEnded) {
  std::atomic<int> ended = 0;
  std::vector<Needs> pieces(10);
  EXPECT_THROW(cli::run_side_by_side(pieces,
                                     {1, 8.0, {}},
                                     [&](std::size_t piece, const Place&) {
                                       if (piece == 3) throw std::runtime_error("third");
                                       ++ended;
                                     }),
               std::runtime_error);
  EXPECT_EQ(ended, 3) << "nothing begins after it";
}

TEST(SideBySide, NothingToDo) {
  cli::run_side_by_side({}, {1, 1.0, {}}, [](std::size_t, const Place&) { FAIL(); });
}

}  // namespace
