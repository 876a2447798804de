// Data made by a law is named by it; right data by none. Every law of every stage, in float64 and
// with the rounding of float32 and bfloat16 on top.
#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "oracles/expected.h"
#include "oracles/laws/match.h"
#include "oracles/numbers.h"
#include "tests/oracles/stage_case.h"

namespace oracles::testing {
namespace {

struct Precision {
  Number number;
  double relative;  // how far a number may be off: some units in the last place
};
constexpr Precision kPrecisions[] = {
    {Number::f64, 1e-11}, {Number::f32, 0x1p-20}, {Number::bf16, 0x1p-6}};

Naming named(const Case& s, Stage stage, const Tensor& found, const Precision& precision) {
  const Tensor wanted = s.stages.right(stage);
  const bool exact = stage == Stage::blocks;
  const Allowed allowed{
      exact ? 0 : precision.relative, finite_scale(wanted), unit_roundoff(precision.number)};
  return name_stage(
      s.stages, stage, found, wanted, wrong_vectors(found, wanted, allowed.of(wanted)), allowed);
}

bool fits(const Naming& naming, std::string_view law) {
  return std::any_of(naming.fitting.begin(), naming.fitting.end(), [&](const LawFit& fit) {
    return fit.law.name == law;
  });
}

// What no case here shows: a sentinel where every row has keys, and a rounding that bfloat16 has
// anyway.
bool cannot_be_told(std::string_view law, Stage stage, Number number) {
  return (law == "finite_sentinel" && (stage == Stage::o_sel || stage == Stage::o_win)) ||
         (law == "rope_in_bfloat16" && number == Number::bf16);
}

class LawNaming : public ::testing::TestWithParam<Stage> {};

TEST_P(LawNaming, DataMadeByALawIsNamedByItAlone) {
  const Stage stage = GetParam();
  for (const Precision& precision : kPrecisions) {
    std::set<std::string_view> tried;
    std::set<std::string_view> alone;
    for (const Case& s : cases()) {
      for (const std::string_view law : s.laws(stage)) {
        tried.insert(law);
        const Tensor found = rounded_to(s.output(law, stage), precision.number);
        const Naming naming = named(s, stage, found, precision);
        if (naming.right.fits()) {
          continue;  // nothing to see here
        }
        EXPECT_TRUE(fits(naming, law)) << law << ": " << naming.text();
        for (const LawFit& fit : naming.fitting) {
          EXPECT_EQ(fit.share, 1) << law << ": " << naming.text();
        }
        if (naming.alone() != nullptr) {
          alone.insert(law);
        }
      }
    }
    for (const std::string_view law : tried) {
      EXPECT_EQ(alone.count(law) == 1, !cannot_be_told(law, stage, precision.number))
          << law << " of " << stage_name(stage) << " in " << number_name(precision.number);
    }
  }
}

// (batch, group, row) of a vector: the heads of a group at one row.
std::size_t unit_of(const Shape& shape, std::size_t vector) {
  const auto rows = static_cast<std::size_t>(shape[shape.size() - 2]);
  const auto heads = shape.size() == 5 ? static_cast<std::size_t>(shape[2]) : 1;
  return vector / rows / heads * rows + vector % rows;
}

// `wrong` in the drawn third of (batch, group, row), `right` in all others.
Tensor in_some_rows(const Tensor& wrong, const Tensor& right, std::uint64_t seed) {
  Tensor mixed = right;
  const auto width = static_cast<std::size_t>(right.shape.back());
  for (std::size_t i = 0; i < right.data.size(); ++i) {
    Random random(seed * 1000 + unit_of(right.shape, i / width));
    mixed.data[i] = random.from(0, 2) == 0 ? wrong.data[i] : right.data[i];
  }
  return mixed;
}

std::size_t wrong_units(const Tensor& found, const Tensor& wanted, double limit) {
  std::set<std::size_t> units;
  for (const std::size_t vector : wrong_vectors(found, wanted, limit)) {
    units.insert(unit_of(wanted.shape, vector));
  }
  return units.size();
}

// A law that holds in some rows is told with the share of them. Another law is never named alone,
// but where it gives just the rows that were drawn.
TEST_P(LawNaming, ALawInSomeRowsIsToldWithItsShare) {
  const Stage stage = GetParam();
  for (const Case& s : cases()) {
    const Tensor wanted = s.stages.right(stage);
    for (const std::string_view law : s.laws(stage)) {
      const Tensor output = s.output(law, stage);
      const Tensor found = in_some_rows(output, wanted, 1);
      const Naming naming = named(s, stage, found, kPrecisions[0]);
      if (naming.right.fits()) {
        continue;
      }
      const double limit = stage == Stage::blocks ? 0 : 1e-11 * finite_scale(wanted);
      const double share = static_cast<double>(wrong_units(found, wanted, limit)) /
                           static_cast<double>(wrong_units(output, wanted, limit));
      for (const LawFit& fit : naming.fitting) {
        if (fit.law.name == law) {
          EXPECT_NEAR(fit.share, share, 1e-9) << law;
        }
      }
      const LawFit* const alone = naming.alone();
      EXPECT_TRUE(fits(naming, law) || (alone != nullptr && alone->share == 1))
          << law << ": " << naming.text();
    }
  }
}

// What no law gives is named by none.
TEST_P(LawNaming, NoiseIsNamedByNone) {
  const Stage stage = GetParam();
  const Case& s = cases()[0];
  Tensor found = s.stages.right(stage);
  Random random(5);
  for (double& value : found.data) {
    value += stage == Stage::blocks ? 7 : random.normal();
  }
  EXPECT_TRUE(named(s, stage, found, kPrecisions[0]).fitting.empty());
  found.data.assign(found.data.size(), std::nan(""));
  EXPECT_TRUE(named(s, stage, found, kPrecisions[0]).fitting.empty());
}

TEST_P(LawNaming, RightDataIsNamedByNone) {
  const Stage stage = GetParam();
  for (const Precision& precision : kPrecisions) {
    for (const Case& s : cases()) {
      const Tensor found = rounded_to(s.stages.right(stage), precision.number);
      const Naming naming = named(s, stage, found, precision);
      EXPECT_TRUE(naming.right.fits()) << stage_name(stage);
      EXPECT_TRUE(naming.fitting.empty()) << naming.text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages,
                         LawNaming,
                         ::testing::ValuesIn(all_stages().begin(), all_stages().end()),
                         [](const auto& of) { return std::string(stage_name(of.param)); });

// ---- candidates in general ------------------------------------------------------------------------------------------------

constexpr double kBeyondAll = std::numeric_limits<double>::infinity();

Expected given_as(std::vector<double> values, std::vector<double> bounds) {
  const auto count = static_cast<std::int64_t>(values.size());
  return {Tensor{{count}, std::move(values)}, Tensor{{count}, std::move(bounds)}};
}

Naming named_by(const Expected& candidate) {
  const std::vector<double> found = {7.0, 2.0};
  const std::vector<WrongLaw<Expected>> one{
      {{"law", "some law"}, [](const Expected& e, std::size_t) { return std::optional(e); }}};
  return name_values(one, candidate, found, given_as({1.0, 2.0}, {0.1, 0.1}));
}

TEST(NameValues, ACandidateThatGivesTheWrongNumberIsNamed) {
  EXPECT_NE(named_by(given_as({7.0, 2.0}, {0.1, 0.1})).alone(), nullptr);
  EXPECT_EQ(named_by(given_as({6.0, 2.0}, {0.1, 0.1})).alone(), nullptr);
}

// A law that divides by zero has an infinite bound: every number keeps it, so it tells nothing of this one.
TEST(NameValues, ABoundThatEveryNumberKeepsExplainsNone) {
  EXPECT_EQ(named_by(given_as({6.0, 2.0}, {kBeyondAll, 0.1})).alone(), nullptr);
  EXPECT_NE(named_by(given_as({7.0, 2.0}, {kBeyondAll, kBeyondAll})).alone(), nullptr)
      << "it gives the number itself";
}

}  // namespace
}  // namespace oracles::testing
