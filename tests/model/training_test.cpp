// Parameters of the model, and the parts of a training step: data, schedule, clipping.

#include <algorithm>
#include <fstream>
#include <numbers>
#include <set>
#include <stdlib.h>
#include <unistd.h>

#include "nsa/base/error.h"
#include "nsa/model/nsa_lm.h"
#include "nsa/train/data.h"
#include "nsa/train/document_lengths.h"
#include "nsa/train/dropout.h"
#include "nsa/train/loss_mask.h"
#include "nsa/train/optimizer.h"
#include "nsa/train/schedule.h"
#include "oracles/training/document_lengths.h"
#include "oracles/training/dropout.h"
#include "oracles/training/shares.h"
#include "tests/model/m7c_125m.h"
#include "tests/model/support.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

TEST(Parameters, NamesOrderAndCount) {
  std::vector<std::string> wanted = {"embed.weight"};
  for (int layer = 0; layer < 12; ++layer) {
    for (const std::string name : {"norm1.weight",
                                   "attn.W_Q.weight",
                                   "attn.W_K_sel.weight",
                                   "attn.W_V_sel.weight",
                                   "attn.W_K_win.weight",
                                   "attn.W_V_win.weight",
                                   "attn.W_K_cmp.weight",
                                   "attn.W_V_cmp.weight",
                                   "attn.out.weight",
                                   "attn.gate.fc1.weight",
                                   "attn.gate.fc1.bias",
                                   "attn.gate.fc2.weight",
                                   "attn.gate.fc2.bias",
                                   "norm2.weight",
                                   "mlp.fc1.weight",
                                   "mlp.fc2.weight"}) {
      wanted.push_back("blocks." + std::to_string(layer) + "." + name);
    }
  }
  wanted.insert(wanted.end(), {"norm_f.weight", "lm_head.weight"});
  Routes routes;
  const ModelConfig config = m7c_125m();
  NsaLm model(config, std::map<std::string, std::string>{}, routes);
  EXPECT_EQ(model->named_parameters().keys(), wanted);
  EXPECT_EQ(wanted.size(), 195U);
  std::int64_t elements = 0;
  for (const auto& parameter : model->parameters()) elements += parameter.numel();
  EXPECT_EQ(elements, config.parameter_count());
  EXPECT_NEAR(static_cast<double>(elements), 78.3e6, 0.05e6);
}

// One parameter for both: no lm_head.weight, and the gradient is the sum of what an untied model with equal weights gives each.
TEST(Parameters, ATiedHeadIsTheEmbedding) {
  ModelConfig config = m7c_125m();
  config.n_layers = 1;
  config.dim = 32;
  config.vocab_size = 11;
  Routes routes;
  torch::manual_seed(3);
  NsaLm untied(config, std::map<std::string, std::string>{}, routes);
  config.tied_head = true;
  torch::manual_seed(3);
  NsaLm tied(config, std::map<std::string, std::string>{}, routes);
  auto of_untied = untied->named_parameters();
  auto of_tied = tied->named_parameters();
  EXPECT_EQ(of_tied.size() + 1, of_untied.size());
  EXPECT_FALSE(of_tied.contains("lm_head.weight"));
  {
    const torch::NoGradGuard no_grad;
    of_untied["lm_head.weight"].copy_(of_untied["embed.weight"]);
  }
  const auto tokens_BS = torch::randint(11, {2, 40}, torch::kLong);
  for (NsaLm model : {untied, tied}) {
    next_token_loss(model->forward(tokens_BS), tokens_BS).backward();
  }
  const auto sum = of_untied["embed.weight"].grad() + of_untied["lm_head.weight"].grad();
  EXPECT_TRUE(torch::allclose(of_tied["embed.weight"].grad(), sum, 1e-5, 1e-6));
  EXPECT_TRUE(tied->head_weight().is_same(of_tied["embed.weight"]));
}

void expect_uniform(const Tensor& weight, double bound, const std::string& name) {
  EXPECT_LE(weight.abs().max().item<double>(), bound) << name;
  EXPECT_GT(weight.abs().max().item<double>(), 0.9 * bound) << name;
  const double expected = bound / std::sqrt(3.0);
  const double allowed = 5.0 * expected / std::sqrt(static_cast<double>(weight.numel()));
  EXPECT_NEAR(weight.std().item<double>(), expected, allowed) << name;
  EXPECT_NEAR(weight.mean().item<double>(), 0.0, allowed) << name;
}

// torch's defaults: uniform within 1/sqrt(fan in), embedding N(0,1), norms one; the gate's fc2 within
// 0.1 sqrt(6 / (fan in + fan out)), its bias zero.
TEST(Parameters, InitialValues) {
  torch::manual_seed(3);
  Routes routes;
  ModelConfig config = m7c_125m();
  config.n_layers = 1;
  NsaLm model(config, std::map<std::string, std::string>{}, routes);
  for (const auto& item : model->named_parameters()) {
    const auto& name = item.key();
    const auto& value = item.value();
    const auto ends = [&](const std::string& end) {
      return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
    };
    if (name == "embed.weight") {
      EXPECT_NEAR(value.std().item<double>(), 1.0, 0.02);
    } else if (name.find("norm") != std::string::npos) {
      EXPECT_TRUE(value.eq(1.0).all().item<bool>()) << name;
    } else if (ends("gate.fc2.bias")) {
      EXPECT_TRUE(value.eq(0.0).all().item<bool>());
    } else if (ends("gate.fc2.weight")) {
      expect_uniform(value, 0.1 * std::sqrt(6.0 / (32 + 3)), name);
    } else if (!ends("gate.fc1.bias")) {
      expect_uniform(value, 1.0 / std::sqrt(static_cast<double>(value.size(1))), name);
    }
  }
}

TEST(Parameters, SameSeedSameValues) {
  ModelConfig config = m7c_125m();
  config.n_layers = 1;
  Routes routes;
  torch::manual_seed(11);
  NsaLm first(config, std::map<std::string, std::string>{}, routes);
  torch::manual_seed(11);
  NsaLm second(config, std::map<std::string, std::string>{}, routes);
  const auto a = first->parameters();
  const auto b = second->parameters();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i]));
}

class Data : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/nsa_data_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::ofstream file(folder_ + "/text.txt", std::ios::binary);
    // 16 bytes a window, the first two its number: 601 windows and a rest.
    for (int i = 0; i < 601 * 16 + 5; ++i) {
      file.put(static_cast<char>(i % 16 == 0   ? i / 16 % 256
                                 : i % 16 == 1 ? i / 16 / 256
                                               : 200 + i % 16));
    }
    config_.text = {folder_};
  }
  // Not std::filesystem::remove_all: LibTorch exports one of its own, which jumps to address 0.
  void TearDown() override {
    unlink((folder_ + "/text.txt").c_str());
    rmdir(folder_.c_str());
  }

  std::string folder_;
  DataConfig config_;
  BatchShape shape_{.batch_size = 3, .seq_len = 16, .accumulate = 2, .vocab_size = 256};
};

TEST_F(Data, TextWindowsAreDisjointUntilAllWereUsed) {
  const int world = 4;
  const auto source = make_data_source(config_, shape_, 5, world);
  std::multiset<std::int64_t> seen;
  for (std::int64_t step = 1; step <= 25; ++step) {  // 24 windows a step, 600 of 601
    for (std::int64_t micro = 0; micro < 2; ++micro) {
      for (int rank = 0; rank < world; ++rank) {
        const auto tokens = source->batch(step, micro, rank, world);
        ASSERT_EQ(tokens.sizes(), (std::vector<std::int64_t>{3, 16}));
        ASSERT_EQ(tokens.scalar_type(), torch::kLong);
        for (int row = 0; row < 3; ++row) {
          EXPECT_EQ(tokens[row][2].item<std::int64_t>(), 202);  // windows begin at multiples of S
          seen.insert(tokens[row][0].item<std::int64_t>() +
                      256 * tokens[row][1].item<std::int64_t>());
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 600U);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 600U);
  EXPECT_LT(*seen.rbegin(), 601);
}

// Across the end of the corpus, where windows begin to come again, a step's own are still different.
TEST_F(Data, AStepNeverSeesAWindowTwice) {
  const auto source = make_data_source(config_, shape_, 6, 1);
  for (std::int64_t step = 1; step <= 250; ++step) {
    std::set<std::int64_t> seen;
    for (std::int64_t micro = 0; micro < 2; ++micro) {
      const auto tokens = source->batch(step, micro, 0, 1);
      for (int row = 0; row < 3; ++row) {
        seen.insert(tokens[row][0].item<std::int64_t>() +
                    256 * tokens[row][1].item<std::int64_t>());
      }
    }
    EXPECT_EQ(seen.size(), 6U) << step;
  }
}

TEST_F(Data, ABatchIsAPureFunction) {
  for (const auto kind :
       {DataConfig::Source::text, DataConfig::Source::uniform, DataConfig::Source::long_range}) {
    config_.source = kind;
    config_.distance = 5;
    const auto source = make_data_source(config_, shape_, 5, 2);
    const auto again = make_data_source(config_, shape_, 5, 2);
    const auto other_seed = make_data_source(config_, shape_, 6, 2);
    static_cast<void>(source->batch(9, 0, 0, 2));
    const auto tokens = source->batch(3, 1, 1, 2);
    EXPECT_TRUE(torch::equal(tokens, again->batch(3, 1, 1, 2)));
    EXPECT_FALSE(torch::equal(tokens, other_seed->batch(3, 1, 1, 2)));
    EXPECT_FALSE(torch::equal(tokens, source->batch(3, 1, 0, 2)));
    EXPECT_FALSE(torch::equal(tokens, source->batch(3, 0, 1, 2)));
    EXPECT_FALSE(torch::equal(tokens, source->batch(4, 1, 1, 2)));
    EXPECT_EQ(source->identity(), again->identity());
  }
}

// What two ranks get together is what one gets with twice the rows: the joint batch.
TEST_F(Data, RanksShareTheJointBatch) {
  shape_.accumulate = 1;
  BatchShape joint = shape_;
  joint.batch_size = 6;
  const auto two = make_data_source(config_, shape_, 5, 2);
  const auto one = make_data_source(config_, joint, 5, 1);
  EXPECT_TRUE(torch::equal(torch::cat({two->batch(4, 0, 0, 2), two->batch(4, 0, 1, 2)}),
                           one->batch(4, 0, 0, 1)));
}

// The mask is the oracle's, and the loss is the sum over the scored tokens over their number.
TEST_F(Data, ARaggedMaskIsTheOracles) {
  config_.loss_mask = DataConfig::LossMask::ragged;
  shape_ = {.batch_size = 3, .seq_len = 9, .accumulate = 2, .vocab_size = 5};
  const LossMask mask(config_, shape_, 7, 2);
  const oracles::DataConfig law{
      .seed = 7, .accumulate = 2, .world = 2, .batch_size = 3, .seq_len = 9, .ragged = true};
  for (std::int64_t step = 1; step <= 2; ++step) {
    for (std::int64_t micro = 0; micro < 2; ++micro) {
      for (int rank = 0; rank < 2; ++rank) {
        const oracles::BatchPlace place{step, micro, rank};
        EXPECT_EQ(mask.scored(step, micro, rank), oracles::scored_positions(law, place));
        const auto mean = torch::ones({}, torch::kDouble);
        EXPECT_NEAR(mask.share(mean, step, micro, rank).item<double>(),
                    oracles::share_of(law, place),
                    1e-15);
      }
    }
  }
  const auto logits_BSV = torch::randn({2, 4, 5}, torch::kDouble);
  const auto tokens_BS = torch::tensor({{1, 2, 3, 4}, {0, 4, 1, 2}});
  const auto log_p = torch::log_softmax(logits_BSV, -1);
  const auto sum = log_p[0][0][2] + log_p[1][0][4] + log_p[1][1][1];
  EXPECT_NEAR(next_token_loss(logits_BSV, tokens_BS, {1, 2}).item<double>(),
              -sum.item<double>() / 3,
              1e-14);
}

// So are the lengths of packed documents, and the loss passes over what ends one.
TEST_F(Data, PackedDocumentsAreTheOracles) {
  config_.packed = 4;
  shape_ = {.batch_size = 3, .seq_len = 70, .accumulate = 2, .vocab_size = 5};
  const Documents documents(config_, shape_, 7, 2);
  const oracles::DataConfig law{
      .seed = 7, .accumulate = 2, .world = 2, .batch_size = 3, .seq_len = 70, .documents = 4};
  const LossMask mask(config_, shape_, 7, 2);
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (std::int64_t micro = 0; micro < 2; ++micro) {
      for (int rank = 0; rank < 2; ++rank) {
        const oracles::BatchPlace place{step, micro, rank};
        EXPECT_EQ(documents.lengths(step, micro, rank), oracles::document_lengths(law, place));
        EXPECT_EQ(mask.tokens(step, micro, rank), oracles::token_counts(law, place).own);
      }
    }
  }
  const auto logits_BSV = torch::randn({1, 5, 5}, torch::kDouble);
  const auto tokens_BS = torch::tensor({{1, 2, 3, 4, 0}});
  const auto log_p = torch::log_softmax(logits_BSV, -1);
  const auto sum = log_p[0][0][2] + log_p[0][3][0];
  EXPECT_NEAR(
      next_token_loss(logits_BSV, labels_of_documents(tokens_BS, {{2, 1, 2}})).item<double>(),
      -sum.item<double>() / 2,
      1e-14);
  EXPECT_TRUE(Documents({}, shape_, 7, 2).lengths(1, 0, 0).empty());
}

// Masks are the oracle's, in every place.
TEST_F(Data, DropoutMasksAreTheOracles) {
  shape_ = {.batch_size = 2, .seq_len = 7, .accumulate = 2, .vocab_size = 5};
  const Dropout dropout(0.3, shape_, 7, 2);
  const oracles::DataConfig law{
      .seed = 7, .accumulate = 2, .world = 2, .batch_size = 2, .seq_len = 7};
  for (int at = 0; at < 16; ++at) {
    const DropoutPlace place{2, at / 8, at / 4 % 2, at / 2 % 2, at % 2};
    const auto kept_BSE = dropout.kept(place, 5);
    const auto wanted = oracles::dropout_factors(
        law, {{place.step, place.micro, place.rank}, place.layer, place.site}, 5, 0.3);
    const auto ones_BSE = torch::ones({2, 7, 5}, torch::kDouble);
    const auto found = dropout.dropped(ones_BSE, kept_BSE).flatten();
    for (std::int64_t i = 0; i < found.numel(); ++i) {
      ASSERT_NEAR(found[i].item<double>(), wanted.data[static_cast<std::size_t>(i)], 1e-15);
    }
  }
}

TEST_F(Data, TooLittleTextIsRefused) {
  shape_.seq_len = 1024;  // 9 windows, a step of 4 ranks wants 24
  EXPECT_THROW(static_cast<void>(make_data_source(config_, shape_, 5, 4)), Error);
  shape_.accumulate = 1;
  EXPECT_NO_THROW(static_cast<void>(make_data_source(config_, shape_, 5, 3)));
}

TEST_F(Data, UniformTokensAreUniform) {
  config_.source = DataConfig::Source::uniform;
  shape_ = {.batch_size = 4, .seq_len = 4096, .accumulate = 1, .vocab_size = 37};
  const auto source = make_data_source(config_, shape_, 1, 1);
  const auto tokens = source->batch(1, 0, 0, 1);
  const double expected = 4.0 * 4096 / 37;
  const auto counts = tokens.flatten().bincount({}, 37).to(torch::kDouble);
  ASSERT_EQ(counts.numel(), 37);
  // Chi square with 36 degrees of freedom: mean 36, standard deviation 8.5.
  EXPECT_LT(((counts - expected).square() / expected).sum().item<double>(), 36 + 5 * 8.5);
  EXPECT_NEAR(source->floor_of(tokens, {}), std::log(37.0), 1e-12);
}

// The floor is the mean of -log p of the very tokens; its expectation is the entropy of the source.
TEST_F(Data, LongRangeRepeatsWithItsProbability) {
  config_.source = DataConfig::Source::long_range;
  config_.distance = 50;
  config_.sharpness = 0.8;
  shape_ = {.batch_size = 4, .seq_len = 8192, .accumulate = 1, .vocab_size = 32};
  const auto source = make_data_source(config_, shape_, 1, 1);
  const auto tokens = source->batch(1, 0, 0, 1);
  const auto later = tokens.slice(1, 50);
  const auto same = later.eq(tokens.slice(1, 0, -50)).to(torch::kDouble);
  const double p_same = 0.8 + 0.2 / 32;
  const double deviation = std::sqrt(p_same * (1 - p_same) / static_cast<double>(same.numel()));
  EXPECT_NEAR(same.mean().item<double>(), p_same, 5 * deviation);

  const double log_same = std::log(p_same);
  const double log_other = std::log(0.2 / 32);
  const double repeats = same.sum().item<double>();
  const double sum = repeats * log_same +
                     (static_cast<double>(same.numel()) - repeats) * log_other -
                     4 * 49 * std::log(32.0);  // positions 1 .. 49 are uniform
  EXPECT_NEAR(source->floor_of(tokens, {}), -sum / (4 * 8191), 1e-12);
}

TEST(Schedule, WarmUpThenCosineToZero) {
  OptimizerConfig config;
  config.lr = 2.0;
  config.warmup = 4;
  config.total = 12;
  EXPECT_DOUBLE_EQ(learning_rate(config, 1), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 4), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 5), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 12), 1.0 + std::cos(std::numbers::pi * 7 / 8));
  EXPECT_EQ(learning_rate(config, 13), 0.0);
  EXPECT_EQ(learning_rate(config, 1000), 0.0);
}

TEST(Clip, ScalesTheWholeGradient) {
  auto a = torch::zeros({2}, torch::kDouble).requires_grad_();
  auto b = torch::zeros({1}, torch::kDouble).requires_grad_();
  auto unused = torch::zeros({1}, torch::kDouble).requires_grad_();
  const auto set = [&] {
    a.mutable_grad() = torch::tensor({3.0, 0.0}, torch::kDouble);
    b.mutable_grad() = torch::tensor({-4.0}, torch::kDouble);
  };
  set();
  EXPECT_DOUBLE_EQ(clip_gradients({a, b, unused}, 2.0), 5.0);
  EXPECT_DOUBLE_EQ(a.grad()[0].item<double>(), 3.0 * 2.0 / (5.0 + 1e-6));
  EXPECT_DOUBLE_EQ(b.grad()[0].item<double>(), -4.0 * 2.0 / (5.0 + 1e-6));
  EXPECT_FALSE(unused.grad().defined());
  set();
  EXPECT_DOUBLE_EQ(clip_gradients({a, b}, 6.0), 5.0);
  EXPECT_EQ(b.grad()[0].item<double>(), -4.0);
  a.mutable_grad() = torch::tensor({std::nan(""), 0.0}, torch::kDouble);
  EXPECT_TRUE(std::isnan(clip_gradients({a, b}, 6.0)));
}

}  // namespace
}  // namespace nsa::testing
