// Which ranks cannot go on, from two dumps of PyTorch's flight recorders.
#include "harness/evidence/flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using harness::FlightDump;
using harness::FlightDumps;
using harness::FlightRecord;
using harness::held_by_peers;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kAll = "all_reduce";

FlightRecord record(std::int64_t sequence, std::int64_t count, bool done, const char* op = kAll) {
  return {"default", sequence, op, "Float", count, done};
}

const FlightDump kWaits{{record(1, 8, true), record(2, 8, false)}};
const FlightDump kNotThere{{record(1, 8, true)}};
const FlightDump kOther{{record(1, 8, true), record(2, 5, false)}};

TEST(Flight, WhoWaitsForARankThatHasNotComeIsHeld) {
  const FlightDumps dumps = {{0, kWaits}, {1, kNotThere}};
  EXPECT_THAT(held_by_peers(dumps, dumps, {0, 1}), ElementsAre(0));
  EXPECT_THAT(held_by_peers({}, dumps, {0, 1}), IsEmpty());  // one dump shows no standstill
}

TEST(Flight, WhoFinishedSomethingBetweenTheDumpsIsNotHeld) {
  const FlightDumps before = {{0, {{record(1, 8, false)}}}, {1, kNotThere}};
  EXPECT_THAT(held_by_peers(before, {{0, kWaits}, {1, kNotThere}}, {0, 1}), IsEmpty());
}

TEST(Flight, WhereAllIssuedTheSameNobodyIsHeld) {
  const FlightDumps dumps = {{0, kWaits}, {1, kWaits}};
  EXPECT_THAT(held_by_peers(dumps, dumps, {0, 1}), IsEmpty());
}

TEST(Flight, BothAreHeldWhereOperationsDiffer) {
  const FlightDumps dumps = {{0, kWaits}, {1, kOther}};
  EXPECT_THAT(held_by_peers(dumps, dumps, {0, 1}), ElementsAre(0, 1));
  const auto departure = harness::flight_departure(dumps);
  ASSERT_TRUE(departure.has_value());
  EXPECT_EQ(departure->sequence, 2);
  EXPECT_EQ(departure->agreed, 1);
  EXPECT_EQ(harness::words_of(departure->issued.at(1)), "all_reduce of 5 Float");
}

TEST(Flight, ARankWithoutADumpHasNotCome) {
  const FlightDumps dumps = {{0, kWaits}};
  EXPECT_THAT(held_by_peers(dumps, dumps, {0, 1}), ElementsAre(0));
}

TEST(Flight, OfAGroupWhoIsNoMemberOfItNeedNotCome) {
  const FlightDump waits{{{"3 [0, 2]", 4, kAll, "Float", 8, false}}};
  const FlightDumps dumps = {{0, waits}, {1, kNotThere}, {2, waits}};
  EXPECT_THAT(held_by_peers(dumps, dumps, {0, 1, 2}), IsEmpty());
}

TEST(Flight, SizesMayDifferWhereAnOperationAllowsIt) {
  EXPECT_FALSE(harness::flight_departure(
      {{0, {{record(1, 8, true, "gather")}}}, {1, {{record(1, 5, true, "gather")}}}}));
  EXPECT_TRUE(harness::flight_departure(
      {{0, {{record(1, 8, true, "gather")}}}, {1, {{record(1, 8, true, "scatter")}}}}));
}

TEST(Flight, OnlyWhatBothStillHoldIsCompared) {
  const FlightDumps dumps = {{0, {{record(7, 8, true), record(8, 8, true)}}},
                             {1, {{record(8, 8, true), record(9, 5, false)}}}};
  EXPECT_FALSE(harness::flight_departure(dumps));
  EXPECT_EQ(harness::flight_agreement(dumps), 1);
}

TEST(Flight, AFactHoldsADump) {
  EXPECT_EQ(harness::flight_dump_of(harness::flight_fact(kOther)), kOther);
  EXPECT_EQ(harness::flight_dump_of({harness::kFlightFact, "[[1]]"}), std::nullopt);
  EXPECT_EQ(harness::flight_dump_of({"other", "[]"}), std::nullopt);
}

}  // namespace
