// How far a forward exercised the branches is measured on what they gave, whatever the configuration says.
#include "harness/worker/record/exposure.h"

#include <gtest/gtest.h>

#include "nsa/model/nsa_lm.h"
#include "tests/model/support.h"
#include "tests/worker/small_model.h"

namespace harness {
namespace {

constexpr std::int64_t kLength = 40;

class ExposureTest : public ::testing::Test {
 protected:
  ExposureTest() {
    torch::manual_seed(3);
    model_ = nsa::NsaLm(config_, std::map<std::string, std::string>{}, routes_);
    x_BSE_ = torch::randn({1, kLength, config_.dim});
  }

  nsa::AttentionTrace traced() {
    const torch::NoGradGuard no_grad;
    nsa::Attention layer = model_->attention(0);
    return nsa::testing::traced(layer, x_BSE_);
  }

  nsa::ModelConfig config_ = tests::small_model(1);
  nsa::Routes routes_;
  nsa::NsaLm model_{nullptr};
  torch::Tensor x_BSE_;
};

TEST_F(ExposureTest, WhatTheBranchesGaveIsMeasured) {
  const Exposure exposure = exposure_of(traced(), config_);
  EXPECT_EQ(exposure.rows, config_.n_kv_groups * kLength);
  EXPECT_GT(exposure.rows_dropped, 0);
  EXPECT_GT(exposure.rows_cut, 0);
  EXPECT_GT(exposure.rows_compressed, 0);
}

TEST_F(ExposureTest, AWindowThatIsIgnoredCutsNoRow) {
  auto& seam = model_->attention(0)->seams().attend_win;
  nsa::ModelConfig wide = config_;
  wide.w = kLength;
  seam = [inner = seam, wide](const nsa::SeamContext& context,
                              const torch::Tensor& q,
                              const torch::Tensor& k,
                              const torch::Tensor& v) {
    return inner({wide, context.layer, context.routes}, q, k, v);
  };
  EXPECT_EQ(exposure_of(traced(), config_).rows_cut, 0) << "the configuration still says w 8";
}

TEST_F(ExposureTest, ABranchThatGivesNothingCompressesNoRow) {
  nsa::AttentionTrace trace = traced();
  trace.o_cmp_BHSD = torch::zeros_like(trace.o_cmp_BHSD);
  EXPECT_EQ(exposure_of(trace, config_).rows_compressed, 0);
}

}  // namespace
}  // namespace harness
