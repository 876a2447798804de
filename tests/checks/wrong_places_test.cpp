// The words for the wrong places of a kernel's result are true of all of them, and are found for what kernels do wrong.
#include "harness/checks/kernel/wrong_places.h"

#include <functional>
#include <random>

#include <gtest/gtest.h>

namespace harness::checks {
namespace {

using Wrong = std::function<bool(const ResultPlace&)>;

// As trials are: a batch of two sequences, each alone, and short ones; four heads.
std::vector<ResultPlace> places_where(const Wrong& wrong) {
  std::vector<ResultPlace> places;
  int trial = 0;
  for (const auto& [length, sequences] :
       std::vector<std::pair<std::int64_t, int>>{{101, 2}, {101, 1}, {53, 1}, {16, 1}, {1, 1}}) {
    for (int sequence = 0; sequence < sequences; ++sequence) {
      for (int head = 0; head < 4; ++head) {
        for (std::int64_t row = 0; row < length; ++row) {
          ResultPlace place{trial, length, sequences, sequence, head, row};
          place.wrong = wrong(place);
          places.push_back(place);
        }
      }
    }
    ++trial;
  }
  return places;
}

std::string words_for(const Wrong& wrong) {
  return part_of(places_where(wrong), 2).words;
}

TEST(WrongPlaces, WhatIsWrongIsSaidInAFewWords) {
  using P = const ResultPlace&;
  EXPECT_EQ(words_for([](P at) { return at.row % 8 == 0; }), "rows = 0 mod 8");
  EXPECT_EQ(words_for([](P at) { return at.row % 16 == 5; }), "rows = 5 mod 16");
  EXPECT_EQ(words_for([](P at) { return at.row >= 64; }), "rows from 64 on");
  EXPECT_EQ(words_for([](P at) { return at.row < 4; }), "rows 0 to 3");
  EXPECT_EQ(words_for([](P at) { return at.row == 17; }), "row 17");
  EXPECT_EQ(words_for([](P at) { return at.row % 16 >= 8; }), "rows = 8 to 15 mod 16");
  EXPECT_EQ(words_for([](P at) { return at.row == at.length - 1; }),
            "the last row of each sequence");
  EXPECT_EQ(words_for([](P at) { return at.row >= at.length / 16 * 16; }),
            "the rows behind the last full tile of 16");
  EXPECT_EQ(words_for([](P at) { return at.head == 3; }), "head 3");
  EXPECT_EQ(words_for([](P at) { return at.head >= 2; }), "heads 2-3 (all of group 1)");
  EXPECT_EQ(words_for([](P at) { return at.head == 1 || at.head == 2; }), "heads 1-2");
  EXPECT_EQ(words_for([](P at) { return at.sequence == 1; }), "sequence 1 of a batch");
  EXPECT_EQ(words_for([](P at) { return at.sequence == 1 && at.head == 3 && at.row >= 64; }),
            "sequence 1 of a batch, head 3, rows from 64 on");
}

TEST(WrongPlaces, NothingIsSaidWhereNothingTellsThemApart) {
  EXPECT_EQ(words_for([](const auto&) { return false; }), "");
  EXPECT_EQ(words_for([](const auto&) { return true; }), "");
  EXPECT_EQ(words_for([](const ResultPlace& at) { return at.row > 0; }), "") << "row 0 has one key";
  EXPECT_EQ(words_for([](const ResultPlace& at) {
              return at.trial == 0 && at.sequence == 1 && at.head == 3 && at.row == 17;
            }),
            "")
      << "of one place the place is told";
  EXPECT_EQ(part_of({}, 2).words, "");
}

// Half of a large part, and nothing outside of it.
TEST(WrongPlaces, APartNeedNotBeWrongEverywhere) {
  EXPECT_EQ(words_for([](const ResultPlace& at) { return at.head == 3 && at.row * 7 % 5 < 3; }),
            "head 3");
}

TEST(WrongPlaces, PlacesThatAreDrawnHaveNoPattern) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const std::uint64_t of_ten = 1 + seed % 9;
    EXPECT_EQ(words_for([&](const auto&) { return random() % 10 < of_ten; }), "") << seed;
  }
}

// Whatever is wrong beside the places of a pattern takes its words away.
TEST(WrongPlaces, OneWrongPlaceOutsideTakesTheWordsAway) {
  const Wrong of_eight = [](const ResultPlace& at) { return at.row % 8 == 0; };
  for (std::int64_t row = 1; row < 8; ++row) {
    const std::string words = words_for([&](const ResultPlace& at) {
      return of_eight(at) || (at.trial == 1 && at.head == 2 && at.row == row);
    });
    EXPECT_EQ(words.find("0 mod 8"), std::string::npos) << words;
  }
}

// Rows that are not judged say nothing.
TEST(WrongPlaces, AShareOfTheRowsIsEnough) {
  std::vector<ResultPlace> some;
  for (const ResultPlace& at : places_where([](const ResultPlace& at) { return at.row >= 64; })) {
    if (at.row % 3 != 0) some.push_back(at);
  }
  EXPECT_EQ(part_of(some, 2).words, "rows from 64 on");
}

}  // namespace
}  // namespace harness::checks
