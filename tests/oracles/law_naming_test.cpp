// Data made by a law is named by it; right data by none. Every law of every stage, in float64 and with
// the rounding of float32 and bfloat16 on top.
#include <cmath>
#include <set>

#include <gtest/gtest.h>

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

Tensor rounded_to(Tensor tensor, Number number) {
  for (double& value : tensor.data) {
    value = rounded(value, number);
  }
  return tensor;
}

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

// What no case here shows: a sentinel where every row has keys, and a rounding that bfloat16 has anyway.
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

}  // namespace
}  // namespace oracles::testing
