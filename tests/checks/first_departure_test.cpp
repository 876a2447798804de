// Where two tensors differ, and which stage departs first.
#include "harness/checks/attention/invariance/first_departure.h"

#include <gtest/gtest.h>

namespace {

using harness::checks::first_departures;
using harness::checks::rows_apart;
using harness::checks::Sameness;
using oracles::StageRow;

// [B, rows, 2] of float32.
class Floats {
 public:
  explicit Floats(std::vector<float> values, std::int64_t batch = 1) : values_(std::move(values)) {
    view_.dtype = nsa::DType::f32;
    view_.shape = {batch, static_cast<std::int64_t>(values_.size()) / 2 / batch, 2};
    view_.bytes = std::as_bytes(std::span(values_));
    view_.where = "a test";
  }
  [[nodiscard]] const nsa::TensorView& view() const { return view_; }

 private:
  std::vector<float> values_;
  nsa::TensorView view_;
};

std::set<int> apart(const std::vector<float>& a,
                    const std::vector<float>& b,
                    const Sameness& same = {}) {
  return rows_apart(Floats(a).view(), Floats(b).view(), 1, same);
}

TEST(RowsApart, AreThoseInWhichANumberDiffers) {
  EXPECT_EQ(apart({1, 2, 3, 4, 5, 6}, {1, 2, 3, 9, 5, 6}), std::set<int>{1});
  EXPECT_EQ(apart({1, 2, 3, 4}, {1, 2, 3, 4}), std::set<int>());
}

TEST(RowsApart, ANanDiffersFromEveryNumberAndFromNoNan) {
  const float nan = std::nanf("");
  const float endless = HUGE_VALF;
  EXPECT_EQ(apart({nan, 2, 3, 4}, {1, 2, 3, nan}, {1e30}), (std::set<int>{0, 1}));
  EXPECT_EQ(apart({nan, endless}, {nan, endless}), std::set<int>());
  EXPECT_EQ(apart({endless, 1}, {1, 1}, {1e30}), std::set<int>{0});
}

TEST(RowsApart, ASignOfAZeroCountsBitByBitAlone) {
  Sameness bits;
  bits.bit_by_bit = true;
  EXPECT_EQ(apart({1, 1, 0, 0}, {1, 1, 0, -0.0F}), std::set<int>());
  EXPECT_EQ(apart({1, 1, 0, 0}, {1, 1, 0, -0.0F}, bits), std::set<int>{1});
}

TEST(RowsApart, OfTheLastSequenceLieInTwoBatches) {
  Sameness last;
  last.last_sequence = true;
  const Floats alone({1, 2, 3, 4});
  const Floats of_two({9, 9, 9, 9, 1, 2, 3, 5}, 2);
  EXPECT_EQ(rows_apart(alone.view(), of_two.view(), 1, last), std::set<int>{1});
  EXPECT_EQ(rows_apart(of_two.view(), alone.view(), 1, last), std::set<int>{1});
  EXPECT_THROW((void)rows_apart(alone.view(), of_two.view(), 1), nsa::Error);
}

std::vector<std::string> roots_of(const std::set<std::string>& differ) {
  std::vector<std::string> names;
  const auto roots = first_departures([&](const StageRow& stage) {
    return std::optional(differ.contains(name_of(stage)) ? std::set<int>{3} : std::set<int>());
  });
  for (const auto& root : roots) names.emplace_back(root.stage->tensor);
  return names;
}

TEST(FirstDepartures, AStageFollowsFromAnInputThatDiffers) {
  EXPECT_EQ(roots_of({"k_sel", "o_sel", "y"}), std::vector<std::string>{"k_sel"});
  EXPECT_EQ(roots_of({"o_sel", "y"}), std::vector<std::string>{"o_sel"});
  EXPECT_EQ(roots_of({"q", "k_win", "o_win"}), (std::vector<std::string>{"q", "k_win"}));
  EXPECT_EQ(roots_of({}), std::vector<std::string>());
}

}  // namespace
