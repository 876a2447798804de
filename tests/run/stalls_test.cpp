#include "harness/run/processes/stalls.h"

#include <gtest/gtest.h>

#include "harness/run/looks/proc_look.h"

namespace {

using harness::Stalls;

TEST(Stalls, AllRanksMustHaveStoodForASecond) {
  Stalls stalls;
  stalls.seen(0, 7, 0);
  stalls.seen(1, 3, 0);
  EXPECT_FALSE(stalls.all_stalled({0, 1}, 900));
  stalls.seen(0, 7, 900);
  stalls.seen(1, 4, 900);
  EXPECT_FALSE(stalls.all_stalled({0, 1}, 1'800)) << "rank 1 gave up the processor";
  EXPECT_TRUE(stalls.all_stalled({0}, 1'800));
  EXPECT_TRUE(stalls.all_stalled({0, 1}, 1'900));
  EXPECT_FALSE(stalls.all_stalled({0, 1, 2}, 1'900)) << "of which nothing is known";
  EXPECT_FALSE(stalls.all_stalled({}, 1'900));
}

TEST(Stalls, WhatCannotBeReadIsNoStall) {
  Stalls stalls;
  stalls.seen(0, -1, 0);
  stalls.seen(0, -1, 5'000);
  EXPECT_FALSE(stalls.all_stalled({0}, 15'500));
}

TEST(Stalls, AMainThreadThatWaitsGivesUpTheProcessor) {
  const std::int64_t before = harness::main_thread_switches_of(getpid());
  usleep(1'000);
  EXPECT_GE(before, 0);
  EXPECT_GT(harness::main_thread_switches_of(getpid()), before);
  EXPECT_EQ(harness::main_thread_switches_of(-1), -1);
}

}  // namespace
