// bfloat16 and float16: the attention keeps its sums of scores and its softmax in float32, the optimiser its masters, and the
// loss scale follows overflows.

#include "nsa/train/precision.h"

#include <cmath>

#include "nsa/seams/historic/historic.h"
#include "nsa/train/autocast.h"
#include "nsa/train/optimizer.h"
#include "tests/model/support.h"
#include "tests/model/variants.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

double unit_roundoff(torch::Dtype dtype) {
  return dtype == torch::kHalf ? 0x1p-11 : 0x1p-8;
}

// 64 sqrt(n) u, n the terms of the longest sum; where sums are taken in float32, a result is rounded to its dtype once
// a stage and not once a term.
double ceiling(std::int64_t terms, torch::Dtype dtype) {
  const double root = std::sqrt(static_cast<double>(terms));
  return 64 * std::min(root * unit_roundoff(dtype), unit_roundoff(dtype) + root * 0x1p-24);
}

class LowPrecision : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);
    torch::manual_seed(31);
  }
  Routes routes_;
};

// The same weights and input in the narrow dtype and in float64, the float64 one's blocks for both.
TEST_F(LowPrecision, EveryStageAndGradientBelowTheCeiling) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    for (const auto& [name, config] : variants()) {
      SCOPED_TRACE(name + (dtype == torch::kHalf ? " fp16" : " bf16"));
      Attention narrow(config, 0, make_attention_seams(config, {}), routes_);
      narrow->to(dtype);
      Attention exact = make_layer(config, routes_);
      for (const auto& item : narrow->named_parameters()) {
        set_parameter(*exact, item.key(), item.value().to(torch::kDouble));
      }
      auto x_BSE = torch::randn({2, 97, config.dim}).to(dtype).requires_grad_();
      auto exact_x_BSE = x_BSE.detach().to(torch::kDouble).requires_grad_();
      const AttentionTrace wanted = traced(exact, exact_x_BSE);
      narrow->seams().select = [&](const SeamContext&, const Tensor&) {
        return wanted.blocks_BGSn;
      };
      const AttentionTrace found = traced(narrow, x_BSE);
      const auto dy_BSE = torch::randn({2, 97, config.dim}).to(dtype);
      (found.y_BSE * dy_BSE).sum().backward();
      (wanted.y_BSE * dy_BSE.to(torch::kDouble)).sum().backward();

      Comparison comparison;
      for (const auto member : {&AttentionTrace::q_BHSD,
                                &AttentionTrace::k_cmp_BGCD,
                                &AttentionTrace::v_cmp_BGCD,
                                &AttentionTrace::p_grp_BGSN,
                                &AttentionTrace::o_cmp_BHSD,
                                &AttentionTrace::o_sel_BHSD,
                                &AttentionTrace::o_win_BHSD,
                                &AttentionTrace::gate,
                                &AttentionTrace::y_BSE}) {
        comparison.add("output", "output", found.*member, wanted.*member);
      }
      comparison.add("gradient", "x", x_BSE.grad(), exact_x_BSE.grad());
      for (const auto& item : narrow->named_parameters()) {
        EXPECT_EQ(item.value().grad().scalar_type(), dtype) << item.key();
        comparison.add("gradient",
                       item.key(),
                       item.value().grad(),
                       exact->named_parameters()[item.key()].grad());
      }
      std::string worst;
      EXPECT_LE(comparison.worst(worst), ceiling(2 * 97, dtype)) << worst;
      EXPECT_EQ(found.y_BSE.scalar_type(), dtype);
      EXPECT_EQ(found.p_grp_BGSN.scalar_type(),
                torch::kFloat);  // scores of blocks are sums of scores
    }
  }
}

// Integers below 2^8 are exact in either dtype, their products of eight terms in float32: logits near 500 that differ by less
// than an ulp of bf16 there (2). Sums of scores in bf16 would make other weights altogether.
TEST_F(LowPrecision, SumsOfScoresAndSoftmaxAreFloat32) {
  const ModelConfig config = small_config();
  const SeamContext context{config, 0, routes_};
  const std::int64_t length = 70;
  const auto q = torch::randint(10, 16, {1, config.n_heads, length, config.d_k}, torch::kDouble);
  const auto k =
      torch::randint(10, 16, {1, config.n_kv_groups, length, config.d_k}, torch::kDouble);
  const auto v = torch::randint(-3, 4, {1, config.n_kv_groups, length, config.d_v}, torch::kDouble);
  const auto scores = torch::rand({1, config.n_kv_groups, length, config.block_count(length)});
  const auto blocks = reference::select(context, scores);
  const auto all = [&](torch::Dtype dtype) {
    const auto a = q.to(dtype);
    const auto b = k.to(dtype);
    const auto c = v.to(dtype);
    return std::vector<Tensor>{
        reference::attend_cmp(context,
                              a,
                              b.slice(2, 0, config.compressed_len(length)),
                              c.slice(2, 0, config.compressed_len(length))),
        reference::attend_sel(context, a, b, c, blocks),
        reference::attend_win(context, a, b, c),
        historic::attend_sel_masked(context, a, b, c, blocks),
        historic::attend_sel_packed(context, a, b, c, blocks),
        historic::attend_sel_gather(context, a, b, c, blocks),
        reference::score(context, a, b.slice(2, 0, config.compressed_len(length)))};
  };
  const auto wanted = all(torch::kDouble);
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    const auto found = all(dtype);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double scale = wanted[i].abs().max().item<double>();
      const double error = (found[i].to(torch::kDouble) - wanted[i]).abs().max().item<double>();
      // One rounding of the result, and float32 logits near 500: e^(500 * 2^-24) is 1 + 3e-5.
      EXPECT_LE(error, (unit_roundoff(dtype) + 2e-4) * scale) << i;
    }
  }
}

TEST_F(LowPrecision, EveryFormTrains) {
  const auto tokens_BS = torch::randint(29, {2, 41}, torch::kLong);
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    for (const auto& [name, config] : variants()) {
      for (const std::map<std::string, std::string>& route :
           std::vector<std::map<std::string, std::string>>{{},
                                                           {{"attend_sel", "masked"}},
                                                           {{"attend_sel", "packed"}},
                                                           {{"attend_sel", "gather"}},
                                                           {{"attention", "sequential"}}}) {
        SCOPED_TRACE(name + (route.empty() ? "" : ", " + route.begin()->second));
        NsaLm model(config, route, routes_);
        model->to(dtype);
        const auto logits = model->forward(tokens_BS);
        EXPECT_EQ(logits.scalar_type(), dtype);
        next_token_loss(logits, tokens_BS).backward();
        for (const auto& item : model->named_parameters()) {
          ASSERT_TRUE(item.value().grad().defined()) << item.key();
          EXPECT_EQ(item.value().grad().scalar_type(), dtype) << item.key();
          EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
        }
      }
    }
  }
}

OptimizerConfig plain_config(double lr) {
  OptimizerConfig config;
  config.lr = lr;
  config.weight_decay = 0.0;
  config.max_norm = 1e9;
  config.warmup = 0;
  config.total = 1'000'000;
  return config;
}

// AdamW under a constant gradient moves by lr a step. 4e-5 is far below half an ulp of 1 in bf16 (2e-3) and fp16 (2.4e-4): alone
// it is lost every time, in masters it adds up.
TEST_F(LowPrecision, MastersKeepWhatPureWeightsLose) {
  for (const auto precision :
       {Precision::bf16, Precision::fp16, Precision::bf16_pure, Precision::fp16_pure}) {
    SCOPED_TRACE(name_of(precision));
    auto weight = torch::ones({4}, dtype_of(precision)).requires_grad_();
    OptimizerConfig config = plain_config(4e-5);
    config.eps = 1e-3;  // a smaller one is zero in fp16
    Optimizer optimizer({weight}, config, precision);
    for (std::int64_t step = 1; step <= 200; ++step) {
      weight.mutable_grad() = torch::full({4}, 0.5 * optimizer.loss_scale(), weight.options());
      EXPECT_NEAR(optimizer.step(), 1.0, 0.01);
    }
    const double moved = 1.0 - weight[0].item<double>();
    if (has_masters(precision)) {
      EXPECT_NEAR(moved, 200 * 4e-5, 0.5 * unit_roundoff(weight.scalar_type()) + 2e-5);
      EXPECT_EQ(optimizer.updated()[0].scalar_type(), torch::kFloat32);
      EXPECT_NEAR(optimizer.updated()[0][0].item<double>(), 1.0 - 200 * 4e-5, 2e-5);
    } else {
      EXPECT_EQ(moved, 0.0);
      EXPECT_TRUE(optimizer.updated()[0].is_same(weight));
    }
  }
}

// What was broadcast after the optimiser was made counts, not what the masters began with.
TEST_F(LowPrecision, MastersBeginWithTheWeightsOfTheFirstStep) {
  auto weight = torch::ones({2}, torch::kBFloat16).requires_grad_();
  Optimizer optimizer({weight}, plain_config(0.0), Precision::bf16);
  {
    const torch::NoGradGuard no_gradient;
    weight.fill_(3.0);
  }
  weight.mutable_grad() = torch::ones({2}, torch::kBFloat16);
  optimizer.step();
  EXPECT_EQ(weight[0].item<double>(), 3.0);
}

TEST_F(LowPrecision, AnOverflowSkipsTheStepAndHalvesTheScale) {
  auto weight = torch::ones({2}, torch::kHalf).requires_grad_();
  Optimizer optimizer({weight}, plain_config(0.1), Precision::fp16);
  const double scale = optimizer.loss_scale();
  EXPECT_EQ(scale, LossScaler::kInitialScale);
  EXPECT_EQ(optimizer.scaled(torch::tensor(2.0)).item<double>(), 2.0 * scale);
  weight.mutable_grad() = torch::tensor({1.0, static_cast<double>(INFINITY)}, torch::kHalf);
  EXPECT_FALSE(std::isfinite(optimizer.step()));
  EXPECT_EQ(weight[0].item<double>(), 1.0);
  EXPECT_EQ(optimizer.loss_scale(), scale / 2);
  EXPECT_EQ(optimizer.skipped(), 1);
  weight.mutable_grad() = torch::tensor({1.0, std::nan("")}, torch::kHalf);
  EXPECT_TRUE(std::isnan(optimizer.step()));
  EXPECT_EQ(weight[0].item<double>(), 1.0);
  weight.mutable_grad() = torch::full({2}, 1024.0, torch::kHalf);
  EXPECT_NEAR(optimizer.step(), std::sqrt(2.0) * 1024.0 / (scale / 4), 1e-6);
  EXPECT_NEAR(weight[0].item<double>(), 0.9, 1e-3);
  EXPECT_EQ(optimizer.skipped(), 2);
}

TEST(Scaler, GrowsAfterManyGoodStepsAndStaysInRange) {
  LossScaler scaler;
  for (std::int64_t step = 1; step < LossScaler::kGrowthInterval; ++step) {
    EXPECT_TRUE(scaler.update(true));
  }
  EXPECT_EQ(scaler.scale(), LossScaler::kInitialScale);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 2 * LossScaler::kInitialScale);
  for (int step = 0; step < 100; ++step) EXPECT_FALSE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), LossScaler::kSmallestScale);
  EXPECT_EQ(scaler.skipped(), 100);
}

// Twenty steps on one batch: with masters the loss goes where float32's goes; every precision stays finite.
TEST_F(LowPrecision, TrainingFollowsFloat32) {
  const ModelConfig config = small_config();
  const auto tokens_BS = torch::randint(config.vocab_size, {2, 41}, torch::kLong);
  const auto last_loss = [&](Precision precision) {
    torch::manual_seed(2);
    NsaLm model(config, std::map<std::string, std::string>{}, routes_);
    model->to(dtype_of(precision));
    OptimizerConfig options = plain_config(3e-3);
    options.max_norm = 1.0;
    options.eps = 1e-6;  // fp16_pure: still not zero
    Optimizer optimizer(model->parameters(), options, precision);
    double last = 0.0;
    for (std::int64_t step = 1; step <= 20; ++step) {
      model->zero_grad();
      const auto loss = next_token_loss(model->forward(tokens_BS), tokens_BS);
      optimizer.scaled(loss).backward();
      optimizer.step();
      last = loss.item<double>();
    }
    for (const auto& parameter : model->parameters()) {
      EXPECT_EQ(parameter.scalar_type(), dtype_of(precision));
    }
    return last;
  };
  const double fp32 = last_loss(Precision::fp32);
  EXPECT_LT(fp32, 3.0);  // from ln 29 = 3.37
  EXPECT_NEAR(last_loss(Precision::fp64), fp32, 1e-3);
  EXPECT_NEAR(last_loss(Precision::bf16), fp32, 0.03);
  EXPECT_NEAR(last_loss(Precision::fp16), fp32, 0.03);
  EXPECT_TRUE(std::isfinite(last_loss(Precision::bf16_pure)));
}

// Autocast takes products to bfloat16 wherever it is not told otherwise: what was widened must stay wide, or blocks are chosen
// among scores of eight bits.
TEST_F(LowPrecision, AutocastLeavesSumsOfScoresInFloat32) {
  for (const auto& [name, config] : variants()) {
    SCOPED_TRACE(name);
    const AttentionSeams seams = make_attention_seams(config, {});
    const SeamContext context{config, 0, routes_};
    const std::int64_t length = 97;
    const auto q = torch::randn({2, config.n_heads, length, config.d_k});
    const auto k = torch::randn({2, config.n_kv_groups, length, config.d_k});
    const auto v = torch::randn({2, config.n_kv_groups, length, config.d_v});
    const auto compressed = config.compressed_len(length);
    const auto k_cmp = k.slice(2, 0, compressed);
    const auto v_cmp = v.slice(2, 0, compressed);
    const auto run = [&] {
      const auto p_grp = seams.score(context, q, k_cmp);
      const auto blocks = seams.select(context, p_grp);
      return std::vector<Tensor>{p_grp,
                                 seams.attend_cmp(context, q, k_cmp, v_cmp),
                                 seams.attend_sel(context, q, k, v, blocks),
                                 seams.attend_win(context, q, k, v)};
    };
    const std::vector<Tensor> plain = run();
    const AutocastScope autocast(torch::kCPU, true);
    const std::vector<Tensor> cast = run();
    for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(cast[i].equal(plain[i])) << i;
  }
}

TEST_F(LowPrecision, AutocastIsOnInsideItsScopeAlone) {
  const auto left = torch::randn({4, 4});
  const auto product = [&] { return torch::mm(left, left).scalar_type(); };
  {
    const AutocastScope on(torch::kCPU, true);
    EXPECT_EQ(product(), torch::kBFloat16);
    {
      const AutocastScope off(torch::kCPU, false);
      EXPECT_EQ(product(), torch::kFloat);
    }
    EXPECT_EQ(product(), torch::kBFloat16);
  }
  EXPECT_EQ(product(), torch::kFloat);
}

}  // namespace
}  // namespace nsa::testing
