// Attention over any set of keys, which wrong laws are made of, acts in every type.
#include <gtest/gtest.h>

#include "harness/faults/attention/struck_rows.h"

namespace {

using torch::Tensor;

// What the reference does: sums in float32, the output rounded once.
TEST(FaultRows, InANarrowTypeTheSumIsTakenInFloat32AndRoundedOnce) {
  torch::manual_seed(3);
  const Tensor q_BHSD = torch::randn({1, 4, 5, 8});
  const Tensor k_BGKD = torch::randn({1, 2, 6, 8});
  const Tensor v_BGKD = torch::randn({1, 2, 6, 8});
  Tensor keys_BGSK = torch::rand({1, 2, 5, 6}).gt(0.5);
  keys_BGSK.select(2, 0).fill_(false);  // a row without any key
  const nsa::ModelConfig config;
  nsa::Routes routes;
  const nsa::SeamContext seam{config, 0, routes};
  for (const auto type : {torch::kBFloat16, torch::kHalf}) {
    const auto narrow = [&](const Tensor& x) { return x.to(type); };
    const auto wide = [&](const Tensor& x) { return x.to(type).to(torch::kFloat); };
    const Tensor found_BHSD = harness::attend_over(
        {seam, "win", narrow(q_BHSD), narrow(k_BGKD), narrow(v_BGKD), {}}, keys_BGSK);
    const Tensor wanted_BHSD = harness::attend_over(
        {seam, "win", wide(q_BHSD), wide(k_BGKD), wide(v_BGKD), {}}, keys_BGSK);
    EXPECT_EQ(found_BHSD.scalar_type(), type);
    EXPECT_TRUE(found_BHSD.equal(wanted_BHSD.to(type))) << torch::toString(type);
    EXPECT_EQ(found_BHSD.select(2, 0).abs().max().item<float>(), 0.0F);
  }
}

}  // namespace
