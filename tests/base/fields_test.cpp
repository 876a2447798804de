// What follows from a table of fields.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nsa/base/fields_read.h"
#include "tests/fakes/error_of.h"

namespace {

enum class Color { red, green };
constexpr std::array kColorNames = {"red", "green"};
constexpr nsa::Names names_of(Color /*of*/) {
  return kColorNames;
}

struct Inner {
  double share = 0.5;
};
struct Outer {
  std::int64_t size = 0;
  int small = 1;
  Color color = Color::red;
  std::optional<Color> other;
  std::string word = "a";
  std::vector<std::int64_t> sizes;
  Inner inner;
  std::optional<Inner> maybe;
  bool flat = false;
};

bool is_short(const std::string& text) {
  return text.size() < 3;
}

using nsa::Field;
using nsa::Part;

constexpr auto kInnerFields =
    std::tuple{Field{"share", &Inner::share, "of it", nsa::between(0, 1)}};
constexpr auto kFlatFields = std::tuple{Field{"flat", &Outer::flat, "or not"}};
constexpr auto kOuterFields =
    std::tuple{Field{"size", &Outer::size, "of it", nsa::within(1, 8), {.required = true}},
               Field{"small", &Outer::small, "number", nsa::above(0, 8)},
               Field{"color", &Outer::color, "of it"},
               Field{"other", &Outer::other, "one"},
               Field{"word", &Outer::word, "for it", nsa::text_that(is_short, "up to 2 letters")},
               Field{"sizes", &Outer::sizes, "of them", nsa::within(1, 8)},
               Part{"inner", &Outer::inner, kInnerFields, "part"},
               Part{"maybe", &Outer::maybe, kInnerFields, "part"},
               Part{"group", nsa::kSame, kFlatFields, "of members"}};

Outer read(const std::string& yaml) {
  const nsa::YamlNode node = nsa::parse_yaml(yaml, "f");
  Outer outer;
  nsa::read_map(kOuterFields, node, "outer", outer);
  nsa::refuse(nsa::out_of_range(kOuterFields, outer), node, "outer");
  return outer;
}

TEST(Fields, FillTheirMembers) {
  const Outer outer = read(
      "{size: 8, small: 3, color: green, other: red, word: bc, sizes: [1, 8], inner: {share: 0.25},"
      " maybe: {share: 0.75}, group: {flat: true}}");
  EXPECT_EQ(outer.size, 8);
  EXPECT_EQ(outer.small, 3);
  EXPECT_EQ(outer.color, Color::green);
  EXPECT_EQ(outer.other, Color::red);
  EXPECT_EQ(outer.word, "bc");
  EXPECT_EQ(outer.sizes, (std::vector<std::int64_t>{1, 8}));
  EXPECT_EQ(outer.inner.share, 0.25);
  EXPECT_EQ(outer.maybe->share, 0.75);
  EXPECT_TRUE(outer.flat);
}

TEST(Fields, WhatIsNotThereKeepsItsDefault) {
  const Outer outer = read("{size: 1, maybe: null}");
  EXPECT_EQ(outer.small, 1);
  EXPECT_EQ(outer.color, Color::red);
  EXPECT_EQ(outer.other, std::nullopt);
  EXPECT_EQ(outer.word, "a");
  EXPECT_EQ(outer.inner.share, 0.5);
  EXPECT_FALSE(outer.maybe.has_value());
}

TEST(Fields, EveryMistakeIsToldAtItsLine) {
  const std::pair<const char*, const char*> table[] = {
      {"{}", "f:1: outer: found no size, wanted one"},
      {"size: 9\n", "f:1: outer.size: found 9, wanted 1..8"},
      {"size: 1\nsmall: 0\n", "f:2: outer.small: found 0, wanted above 0 to 8"},
      {"size: 1\nsmall: 4294967296\n",
       "f:2: outer.small: found \"4294967296\", wanted a whole number of at most 32 bits"},
      {"size: 1\ncolor: gren\n",
       "f:2: outer.color: found \"gren\", wanted one of red, green; did you mean \"green\"?"},
      {"size: 1\nother: blue\n", "f:2: outer.other: found \"blue\", wanted one of red, green"},
      {"size: 1\nword: abc\n", "f:2: outer.word: found \"abc\", wanted up to 2 letters"},
      {"size: 1\nsizes: [1,\n 1]\n", "f:3: outer.sizes: found \"1\", wanted 1..8, ascending"},
      {"size: 1\nsizes: [9]\n", "f:2: outer.sizes: found \"9\", wanted 1..8, ascending"},
      {"size: 1\ninner:\n  share: 1\n", "f:3: outer.inner.share: found 1, wanted above 0, below 1"},
      {"size: 1\nmaybe:\n  share: .nan\n",
       "f:3: outer.maybe.share: found NaN, wanted above 0, below 1"},
      {"size: 1\ninner: {shar: 1}\n",
       "f:2: key of outer.inner: found \"shar\", wanted share; did you mean \"share\"?"},
      {"size: 1\ngroup: [1]\n", "f:2: outer.group: found a list, wanted a map"},
  };
  for (const auto& [yaml, message] : table) {
    EXPECT_EQ(error_of([&, text = yaml] { (void)read(text); }), message) << yaml;
  }
}

// A law: a range takes exactly its numbers, and never a NaN.
TEST(Fields, ARangeTakesItsNumbersOnly) {
  for (const double value : {-1.0, 0.0, 1e-300, 0.5, 1.0, 1.0 + 1e-15, std::nan("")}) {
    const bool inside = value > 0.0 && value < 1.0;
    EXPECT_EQ(nsa::between(0, 1).has(value), inside) << value;
    EXPECT_EQ(nsa::above(0, 1).has(value), inside || value == 1.0) << value;
    EXPECT_EQ(nsa::within(0, 1).has(value), inside || value == 0.0 || value == 1.0) << value;
    EXPECT_TRUE(nsa::Accepts{}.has(value)) << value;
  }
}

}  // namespace
