// What equal, absent, unread and not finite mean for values that must be equal: laws that hold for drawn values.
#include "harness/checks/agreement.h"

#include <random>

#include <gtest/gtest.h>

namespace {

using harness::checks::agree;
using harness::checks::Agreement;
using harness::checks::Held;
using harness::checks::Said;

const double kNan = std::nan("");

class DrawnValues {
 public:
  Held value() {
    switch (random_() % 6) {
      case 0: return Held::nothing();
      case 1: return Held::hash("");
      case 2: return Held::hash("a");
      case 3: return Held::hash("b");
      case 4: return Held::of(kNan);
      default: return Held::of(1.0 + static_cast<double>(random_() % 2));
    }
  }
  std::map<int, Held> values() {
    std::map<int, Held> all;
    for (std::size_t holder = 0, count = 1 + random_() % 5; holder < count; ++holder) {
      all[static_cast<int>(holder)] = value();
    }
    return all;
  }

 private:
  std::mt19937 random_{7};
};

TEST(Agreement, IsNeverEqualIfAValueIsUnreadOrNoValueIsThere) {
  DrawnValues draw;
  for (int time = 0; time < 2000; ++time) {
    const std::map<int, Held> values = draw.values();
    const Agreement<int> agreed = agree(values);
    bool unread = false;
    bool there = false;
    for (const auto& [holder, value] : values) {
      unread = unread || value.state == Held::State::unread;
      there = there || value.state == Held::State::there;
    }
    EXPECT_EQ(agreed.said == Said::unread, unread);
    if (!there || values.size() < 2) {
      EXPECT_FALSE(agreed.compared());
    }
  }
}

TEST(Agreement, NotFiniteIsNeverEqual) {
  EXPECT_EQ(agree(Held::of(kNan), Held::of(kNan)), Said::not_finite);
  EXPECT_EQ(agree(Held::of(INFINITY), Held::of(INFINITY)), Said::not_finite);
  EXPECT_EQ(agree(Held::of(kNan), Held::of(1.0), 1e9), Said::differ);
  EXPECT_EQ(agree(Held::of(1.0), Held::of(kNan), 1e9), Said::differ);
  EXPECT_EQ(agree(Held::of(INFINITY), Held::of(1.0), 1e9), Said::differ);
}

TEST(Agreement, AValueAndNothingDiffer) {
  EXPECT_EQ(agree(Held::hash("a"), Held::nothing()), Said::differ);
  EXPECT_EQ(agree(Held::of(0.0), Held::nothing()), Said::differ);
  EXPECT_EQ(agree(Held::nothing(), Held::nothing()), Said::absent);
}

TEST(Agreement, NumbersAreEqualWithinTheLimit) {
  EXPECT_EQ(agree(Held::of(1.0), Held::of(1.0)), Said::equal);
  EXPECT_EQ(agree(Held::of(1.0), Held::of(1.25)), Said::differ);
  EXPECT_EQ(agree(Held::of(1.0), Held::of(1.25), 0.25), Said::equal);
  EXPECT_EQ(agree(Held::of(0.0), Held::of(-0.0)), Said::equal);
}

TEST(Agreement, TheOddOnesAreThoseOutsideTheStrictMajority) {
  const auto odd = [](const std::vector<std::string>& hashes) {
    std::map<int, Held> values;
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      values[static_cast<int>(i)] = Held::hash(hashes[i]);
    }
    return agree(values).odd;
  };
  EXPECT_EQ(odd({"a", "b", "a"}), std::vector<int>{1});
  EXPECT_EQ(odd({"a", "b", "a", "c"}), std::vector<int>());
  EXPECT_EQ(odd({"a", "b"}), std::vector<int>());
}

TEST(Agreement, WhoHoldsAValueDecidesNothing) {
  DrawnValues draw;
  for (int time = 0; time < 2000; ++time) {
    const std::map<int, Held> values = draw.values();
    std::map<int, Held> mirrored;
    for (const auto& [holder, value] : values) mirrored[-holder] = value;
    EXPECT_EQ(agree(values).said, agree(mirrored).said);
  }
}

TEST(Agreement, OthersAreComparedBesideAnUnreadOneIfThatIsAsked) {
  const std::map<int, Held> values = {
      {0, Held::hash("a")}, {1, Held::hash("")}, {2, Held::hash("b")}};
  const auto agreed = agree(values, 0.0, harness::checks::Unread::compares_others);
  EXPECT_EQ(agreed.said, Said::differ);
  EXPECT_EQ(agreed.unread, std::vector<int>{1});
}

}  // namespace
