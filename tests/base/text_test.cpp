#include "nsa/base/text.h"

#include <clocale>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace {

using nsa::parse_double;
using nsa::parse_int;
using nsa::to_text;

std::uint64_t bits_of(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

TEST(Text, EveryDoubleReadsBackToItself) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t bits = random();
    double value = 0.0;
    std::memcpy(&value, &bits, sizeof(value));
    const auto back = parse_double(to_text(value));
    ASSERT_TRUE(back.has_value()) << to_text(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(*back));
    } else {
      ASSERT_EQ(bits_of(*back), bits_of(value)) << to_text(value);
    }
  }
}

TEST(Text, EdgesOfTheFormatReadBack) {
  using Limits = std::numeric_limits<double>;
  for (const double value :
       {0.0, -0.0, Limits::denorm_min(), Limits::min(), Limits::max(), 0.1, 1e22}) {
    EXPECT_EQ(bits_of(parse_double(to_text(value)).value()), bits_of(value));
  }
  EXPECT_EQ(to_text(Limits::infinity()), "Infinity");
  EXPECT_EQ(to_text(-Limits::infinity()), "-Infinity");
  EXPECT_EQ(to_text(Limits::quiet_NaN()), "NaN");
  EXPECT_EQ(to_text(Limits::quiet_NaN(), 3), "NaN");
}

TEST(Text, RoundedForPeople) {
  EXPECT_EQ(to_text(1.2345e-7, 3), "1.23e-07");
  EXPECT_EQ(to_text(42.123, 3), "42.1");
  EXPECT_EQ(to_text(-0.5, 3), "-0.5");
  EXPECT_EQ(to_text(100.0, 3), "100");
}

TEST(Text, NumbersAreTakenWholeOrNotAtAll) {
  for (const char* text : {"",
                           " 1",
                           "1 ",
                           "1x",
                           "0x10",
                           "1,5",
                           "nan",
                           "inf",
                           "INF",
                           "infinity",
                           "1e999",
                           "--1",
                           "+-1",
                           "-+1",
                           "1e",
                           "e1",
                           ".",
                           "1.2.3",
                           "++1"}) {
    EXPECT_FALSE(parse_double(text).has_value()) << text;
    EXPECT_FALSE(parse_int(text).has_value()) << text;
  }
  for (const char* text : {"1.0", "1e3", "9223372036854775808", "-9223372036854775809"}) {
    EXPECT_FALSE(parse_int(text).has_value()) << text;
  }
  EXPECT_EQ(parse_int("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parse_int("+7"), 7);
  EXPECT_EQ(parse_double("+1.5"), 1.5);
  EXPECT_TRUE(std::isnan(parse_double(".nan").value()));
  EXPECT_EQ(parse_double("-.inf"), -std::numeric_limits<double>::infinity());
}

TEST(Text, TheLocaleMeansNothing) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* comma : {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"}) {
    if (std::setlocale(LC_ALL, comma) == nullptr) continue;
    EXPECT_EQ(to_text(1.5), "1.5") << comma;
    EXPECT_EQ(parse_double("1.5"), 1.5) << comma;
  }
  std::setlocale(LC_ALL, before.c_str());
}

TEST(Text, NearestNameIsNearAndAmongTheKnown) {
  const std::vector<std::string> known = {"static_graph", "find_unused", "bucket_mb", "compress"};
  EXPECT_EQ(nsa::nearest_name("statc_graph", known), "static_graph");
  EXPECT_EQ(nsa::nearest_name("bukcet_mb", known), "bucket_mb");
  EXPECT_EQ(nsa::nearest_name("bucketmb", known), "bucket_mb");
  EXPECT_EQ(nsa::nearest_name("temperature", known), "");
  const std::vector<std::string> short_name = {"ranks"};
  EXPECT_EQ(nsa::nearest_name("rnaks", short_name), "ranks") << "a swap of neighbours is one slip";
  EXPECT_EQ(nsa::nearest_name("", known), "");
  EXPECT_EQ(nsa::nearest_name(std::string(1 << 20, 'a'), known), "");
}

// A law: every one-letter change of a name of at least four letters leads back to it, when no other name is as near.
TEST(Text, OneSlipOfTheFingerIsForgiven) {
  const std::vector<std::string> known = {
      "gradients_arrived", "process_clean", "exercised", "finite"};
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    const std::string name = known[random() % known.size()];
    std::string slip = name;
    const std::size_t at = random() % slip.size();
    switch (random() % 4) {
      case 0: slip.erase(at, 1); break;
      case 1: slip.insert(at, 1, 'x'); break;
      case 2: slip[at] = 'x'; break;
      default: std::swap(slip[at], slip[at + 1 < slip.size() ? at + 1 : 0]); break;
    }
    if (at + 1 == slip.size()) continue;  // a swap over the ends is no slip
    EXPECT_EQ(nsa::nearest_name(slip, known), name) << slip;
  }
}

TEST(Text, Ranges) {
  using Ints = std::vector<int>;
  EXPECT_EQ(nsa::ranges_text(Ints{}), "");
  EXPECT_EQ(nsa::ranges_text(Ints{7}), "7");
  EXPECT_EQ(nsa::ranges_text(Ints{3, 4, 5, 9}), "3-5, 9");
  EXPECT_EQ(nsa::ranges_text(Ints{0, 2, 3}), "0, 2-3");
  const int most = std::numeric_limits<int>::max();
  EXPECT_EQ(nsa::ranges_text(Ints{most - 1, most}), "2147483646-2147483647");
}

TEST(Text, WordsAsAShellTakesThem) {
  const std::vector<std::string> words = {"run", "a b", "--set", "x=1", "it's", "", "[1]", "a=$b"};
  EXPECT_EQ(nsa::shell_text(words), "run 'a b' --set x=1 'it'\\''s' '' '[1]' 'a=$b'");
}

TEST(Text, NearIsNotFartherThanAsked) {
  const std::vector<std::string> known = {"blocks", "logits"};
  EXPECT_EQ(nsa::nearest_name("blcoks", known, 1), "blocks");
  EXPECT_EQ(nsa::nearest_name("blcokz", known, 1), "");
  EXPECT_EQ(nsa::nearest_name("blcokz", known), "blocks");
}

}  // namespace
