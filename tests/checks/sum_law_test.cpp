// The mean of the ranks' gradients where they are so small that their type has no digits left.
#include "harness/checks/gradients/sum_law.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace {

using harness::checks::compare_with_mean;
using harness::checks::kBf16Roundoff;

// Numbers of float16 below 2^-14: so many steps.
class Subnormals {
 public:
  explicit Subnormals(const std::vector<std::uint16_t>& steps) : bytes_(2 * steps.size()) {
    std::memcpy(bytes_.data(), steps.data(), bytes_.size());
  }
  [[nodiscard]] nsa::TensorView view() const {
    nsa::TensorView view;
    view.dtype = nsa::DType::f16;
    view.shape = {static_cast<std::int64_t>(bytes_.size() / 2)};
    view.bytes = bytes_;
    return view;
  }

 private:
  std::vector<std::byte> bytes_;
};

// Three ranks with 157 steps each: 52.33 on the way, rounded, and three of them are 156.
TEST(SumLaw, AThirdOfFewStepsOfFloat16IsRoundedToAStep) {
  const Subnormals local({157, 40});
  const Subnormals reduced({156, 40});
  const std::vector<nsa::TensorView> locals(3, local.view());
  EXPECT_FALSE(compare_with_mean(reduced.view(), locals).violated);
  EXPECT_FALSE(compare_with_mean(reduced.view(), locals, kBf16Roundoff).violated)
      << "the result is of float16, whatever travelled";
}

TEST(SumLaw, MoreStepsThanRanksAreNoRounding) {
  const Subnormals local({157, 40});
  for (const std::uint16_t found : {std::uint16_t{152}, std::uint16_t{0}}) {
    const Subnormals reduced({found, 40});
    EXPECT_TRUE(
        compare_with_mean(reduced.view(), {local.view(), local.view(), local.view()}).violated)
        << found;
  }
}

}  // namespace
