// The language model: golden files, finite differences, hand-computed cells, and what it refuses.
#include "oracles/model/lm.h"

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracles/model/cross_entropy.h"
#include "oracles/model/rms_norm.h"
#include "tests/oracles/lm_golden.h"
#include "tests/oracles/model/random_lm.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

using ::testing::HasSubstr;

// Two float64 implementations that sum in other orders: 64 sqrt(n) u with n = 96 terms, the longest
// sums of the files, is 7e-14, over three layers; the next power of ten above it.
constexpr double kLimit = 1e-12;

double largest_of(const Weights& tensors) {
  double largest = 0;
  for (const auto& [name, tensor] : tensors) {
    largest = std::max(largest, largest_magnitude(tensor));
  }
  return largest;
}

// The largest error, all of them held to the limit.
double judge(const Weights& found, const Weights& wanted) {
  EXPECT_EQ(found.size(), wanted.size());
  double worst = 0;
  for (const auto& [name, tensor] : wanted) {
    const double error = relative_error(found.at(name), tensor, largest_of(wanted));
    EXPECT_LE(error, kLimit) << name;
    worst = std::max(worst, error);
  }
  return worst;
}

void record(const std::string& name, double error) {
  std::ostringstream text;
  text << error;
  ::testing::Test::RecordProperty(name, text.str());
}

class LmGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(LmGolden, LossLogitsAndAllGradients) {
  const GoldenFile file("lm_" + GetParam());
  const LmConfig config = lm_config_of(file.metadata("config"));
  const LmPass pass =
      language_model_with_gradients(config, file.tensors("p."), file.integers("tokens"));
  const double loss = file.tensor("loss").data.at(0);
  EXPECT_NEAR(pass.result.loss, loss, kLimit * loss);
  record("logits", judge({{"logits", pass.result.logits}}, {{"logits", file.tensor("logits")}}));
  record("gradients", judge(pass.gradients, file.tensors("g.p.")));
}

TEST_P(LmGolden, MarginsOfEveryLayer) {
  const GoldenFile file("lm_" + GetParam());
  const LmConfig config = lm_config_of(file.metadata("config"));
  const LmResult found = language_model(config, file.tensors("p."), file.integers("tokens"));
  double smallest = std::numeric_limits<double>::infinity();
  for (const Tensor& margins : found.margins) {
    smallest = std::min(smallest, *std::min_element(margins.data.begin(), margins.data.end()));
  }
  const double wanted = std::strtod(file.metadata("min_margin").c_str(), nullptr);
  EXPECT_NEAR(smallest, wanted, 1e-9 * wanted);
}

INSTANTIATE_TEST_SUITE_P(EveryFile,
                         LmGolden,
                         ::testing::ValuesIn(golden_names("lm")),
                         [](const auto& param) { return param.param; });

TEST(LmGoldenFolder, HoldsBothFiles) {
  EXPECT_GE(golden_names("lm").size(), 2u);
}

TEST(RmsNorm, OfTwoNumbers) {
  const Tensor z{{1, 2}, {3, 4}};
  const double r = 1 / std::sqrt(12.5 + 1e-6);
  const Tensor y = rms_norm(z, {{2}, {1, 10}});
  EXPECT_NEAR(y.data[0], 3 * r, 1e-15);
  EXPECT_NEAR(y.data[1], 40 * r, 1e-14);
}

// The small constant decides where z vanishes: 0.001 / sqrt(1e-6 + 1e-6).
TEST(RmsNorm, OfSmallNumbers) {
  EXPECT_NEAR(rms_norm({{1, 1}, {0.001}}, {{1}, {1}}).data[0], 1 / std::sqrt(2.0), 1e-15);
  EXPECT_EQ(rms_norm({{1, 1}, {0}}, {{1}, {1}}).data[0], 0);
}

TEST(CrossEntropy, OfTwoPositionsByHand) {
  // Softmax (1/4, 3/4) at both; the targets are 1 and 0; the last position predicts nothing.
  const Tensor logits{{1, 3, 2}, {0, std::log(3.0), 5, 5 + std::log(3.0), 100, -100}};
  const CrossEntropy found = cross_entropy(logits, {{1, 3}, {0, 1, 0}});
  EXPECT_NEAR(found.loss, -(std::log(0.75) + std::log(0.25)) / 2, 1e-15);
  const std::vector<double> wanted{0.125, -0.125, -0.375, 0.375, 0, 0};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(found.dlogits_BSV.data[i], wanted[i], 1e-15) << i;
  }
}

// The same row twice; of the first one position is scored, of the second both.
TEST(CrossEntropy, OfScoredPositionsByHand) {
  const std::vector<double> row{0, std::log(3.0), 5, 5 + std::log(3.0), 100, -100};
  Tensor logits{{2, 3, 2}, row};
  logits.data.insert(logits.data.end(), row.begin(), row.end());
  const CrossEntropy found = cross_entropy(logits, {{2, 3}, {0, 1, 0, 0, 1, 0}}, {{1, 2}});
  EXPECT_NEAR(found.loss, -(2 * std::log(0.75) + std::log(0.25)) / 3, 1e-15);
  const std::vector<double> wanted{0.25, -0.25, 0, 0, 0, 0, 0.25, -0.25, -0.75, 0.75, 0, 0};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(found.dlogits_BSV.data[i], wanted[i] / 3, 1e-15) << i;
  }
}

// Two documents in one sequence: the last position of either predicts nothing.
TEST(CrossEntropy, OfPackedDocumentsByHand) {
  const Tensor logits{{1, 4, 2}, {0, std::log(3.0), 7, 7, 5, 5 + std::log(3.0), 100, -100}};
  const std::vector<std::vector<std::int64_t>> lengths{{2, 2}};
  const CrossEntropy found = cross_entropy(logits, {{1, 4}, {0, 1, 0, 0}}, {}, lengths);
  EXPECT_NEAR(found.loss, -(std::log(0.75) + std::log(0.25)) / 2, 1e-15);
  const std::vector<double> wanted{0.125, -0.125, 0, 0, -0.375, 0.375, 0, 0};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(found.dlogits_BSV.data[i], wanted[i], 1e-15) << i;
  }
}

TEST(CrossEntropy, OfLogitsThatOverflowAlone) {
  const CrossEntropy found = cross_entropy({{1, 2, 2}, {1e5, 0, 0, 0}}, {{1, 2}, {0, 1}});
  EXPECT_EQ(found.loss, 1e5);
}

// The slopes of the loss along the whole of the parameters, with masks in both halves of every block.
TEST(Dropout, GradientsAreTheSlopesOfTheLoss) {
  const RandomLm lm(12);
  Random random(77);
  LmOptions options;
  options.replay = language_model(lm.config, lm.parameters, lm.tokens).blocks;
  const std::int64_t rows = lm.tokens.shape[0] * lm.tokens.shape[1];
  for (std::int64_t layer = 0; layer < lm.config.n_layers; ++layer) {
    std::array<Tensor, 2> factors;
    for (Tensor& factor : factors) {
      factor = filled<double>({rows, lm.config.attention.dim}, 0);
      for (double& value : factor.data) value = random.from(0, 3) == 0 ? 0 : 4.0 / 3;
    }
    options.factors.push_back(factors);
  }
  const LmPass pass = language_model_with_gradients(lm.config, lm.parameters, lm.tokens, options);
  Weights direction;
  double slope = 0;
  for (const auto& [name, parameter] : lm.parameters) {
    direction[name] = random.tensor(parameter.shape, 0.1);
    for (std::size_t i = 0; i < parameter.data.size(); ++i) {
      slope += direction[name].data[i] * pass.gradients.at(name).data[i];
    }
  }
  const auto loss_at = [&](double step) {
    Weights moved = lm.parameters;
    for (auto& [name, parameter] : moved) {
      for (std::size_t i = 0; i < parameter.data.size(); ++i) {
        parameter.data[i] += step * direction[name].data[i];
      }
    }
    return language_model(lm.config, moved, lm.tokens, options).loss;
  };
  const double h = 1e-3;
  const double found =
      (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
  EXPECT_NEAR(found, slope, 1e-7 * (1 + std::abs(slope)));
  EXPECT_NE(pass.result.loss, language_model(lm.config, lm.parameters, lm.tokens).loss);
}

// A packed sequence is its documents, each as a sequence of its own: loss and gradients are their sums, over all that is scored.
TEST(PackedModel, IsTheSumOfItsDocuments) {
  RandomLm lm(12);
  Random random(3);
  lm.tokens = filled<std::int64_t>({1, 24}, 0);
  for (std::int64_t& token : lm.tokens.data) token = random.from(0, lm.config.vocab_size - 1);
  LmOptions options;
  options.documents = {{2, 17, 1, 4}};
  const LmPass packed = language_model_with_gradients(lm.config, lm.parameters, lm.tokens, options);
  double loss = 0;
  Weights sums;
  for (const auto& [begin, length] : {std::pair(0, 2), std::pair(2, 17), std::pair(20, 4)}) {
    IntTensor own{{1, length}, {}};
    own.data.assign(lm.tokens.data.begin() + begin, lm.tokens.data.begin() + begin + length);
    const LmPass alone = language_model_with_gradients(lm.config, lm.parameters, own);
    const double share = (length - 1) / 20.0;
    loss += share * alone.result.loss;
    for (const auto& [name, gradient] : alone.gradients) {
      Tensor& sum = sums.try_emplace(name, zeros(gradient.shape)).first->second;
      for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += share * gradient.data[i];
    }
  }
  EXPECT_NEAR(packed.result.loss, loss, 1e-13 * loss);
  for (const auto& [name, sum] : sums) {
    EXPECT_LE(relative_error(packed.gradients.at(name), sum, largest_of(sums)), 1e-12) << name;
  }
  EXPECT_NE(packed.result.loss, language_model(lm.config, lm.parameters, lm.tokens).loss);
  options.documents = {{2, 17, 1, 5}};
  EXPECT_THROW((void)language_model(lm.config, lm.parameters, lm.tokens, options),
               std::invalid_argument);
}

// A tied head: the gradient of the one table is the sum of both tables' of the untied model with equal weights.
TEST(TiedHead, AddsBothGradients) {
  RandomLm lm(7);
  lm.parameters.at("lm_head.weight") = lm.parameters.at("embed.weight");
  const LmPass untied = language_model_with_gradients(lm.config, lm.parameters, lm.tokens);
  lm.config.tied_head = true;
  EXPECT_EQ(parameter_shapes(lm.config).count("lm_head.weight"), 0u);
  lm.parameters.erase("lm_head.weight");
  const LmPass tied = language_model_with_gradients(lm.config, lm.parameters, lm.tokens);
  EXPECT_EQ(tied.result.loss, untied.result.loss);
  EXPECT_EQ(tied.gradients.size() + 1, untied.gradients.size());
  for (const auto& [name, gradient] : tied.gradients) {
    Tensor wanted = untied.gradients.at(name);
    for (std::size_t i = 0; name == "embed.weight" && i < wanted.data.size(); ++i) {
      wanted.data[i] += untied.gradients.at("lm_head.weight").data[i];
    }
    EXPECT_LE(relative_error(gradient, wanted, 1), 1e-13) << name;
  }
}

class LmGradients : public ::testing::TestWithParam<int> {};

// As in gradient_test.cpp: fourth-order central differences along a random direction.
TEST_P(LmGradients, AreTheSlopesOfTheLoss) {
  const RandomLm lm(GetParam());
  Random random(GetParam() + 500);
  LmOptions options;
  options.replay = language_model(lm.config, lm.parameters, lm.tokens).blocks;
  const LmPass pass = language_model_with_gradients(lm.config, lm.parameters, lm.tokens, options);
  for (const auto& [name, parameter] : lm.parameters) {
    const Tensor direction = random.tensor(parameter.shape, 1 / std::sqrt(parameter.data.size()));
    const auto loss_at = [&, &name = name](double step) {
      Weights moved = lm.parameters;
      for (std::size_t i = 0; i < direction.data.size(); ++i) {
        moved.at(name).data[i] += step * direction.data[i];
      }
      return language_model(lm.config, moved, lm.tokens, options).loss;
    };
    constexpr double kStep = 2e-4;
    const double slope =
        (8 * (loss_at(kStep) - loss_at(-kStep)) - (loss_at(2 * kStep) - loss_at(-2 * kStep))) /
        (12 * kStep);
    double found = 0;
    for (std::size_t i = 0; i < direction.data.size(); ++i) {
      found += direction.data[i] * pass.gradients.at(name).data[i];
    }
    EXPECT_NEAR(found, slope, 1e-8 * std::max(1.0, std::abs(slope))) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Random, LmGradients, ::testing::Range(0, 12));

TEST(LmLaws, LaterTokensChangeNoEarlierLogit) {
  const GoldenFile file("lm_3layers");
  const LmConfig config = lm_config_of(file.metadata("config"));
  const Weights parameters = file.tensors("p.");
  IntTensor tokens = file.integers("tokens");
  const LmResult before = language_model(config, parameters, tokens);
  const std::int64_t from = 33;
  for (std::int64_t t = from; t < tokens.shape[1]; ++t) {
    tokens.data[t] = (tokens.data[t] + 1) % config.vocab_size;
  }
  const LmResult after = language_model(config, parameters, tokens);
  for (std::int64_t i = 0; i < from * config.vocab_size; ++i) {
    ASSERT_EQ(before.logits.data[i], after.logits.data[i]) << i;
  }
  EXPECT_NE(before.loss, after.loss);
}

TEST(LmLaws, ReplayOfTheOwnBlocksChangesNoBit) {
  const GoldenFile file("lm_3layers");
  const LmConfig config = lm_config_of(file.metadata("config"));
  const Weights parameters = file.tensors("p.");
  const IntTensor tokens = file.integers("tokens");
  const LmResult own = language_model(config, parameters, tokens);
  EXPECT_NE(own.blocks[0].data, own.blocks[1].data);
  LmOptions options;
  options.replay = own.blocks;
  const LmPass replayed = language_model_with_gradients(config, parameters, tokens, options);
  EXPECT_EQ(replayed.result.logits.data, own.logits.data);
  const LmPass pass = language_model_with_gradients(config, parameters, tokens);
  for (const auto& [name, gradient] : pass.gradients) {
    EXPECT_EQ(replayed.gradients.at(name).data, gradient.data) << name;
  }
}

TEST(LmLaws, ThreadsChangeNoBit) {
  const RandomLm lm(3);
  LmOptions options;
  options.threads = 1;
  const LmPass one = language_model_with_gradients(lm.config, lm.parameters, lm.tokens, options);
  options.threads = 5;
  const LmPass five = language_model_with_gradients(lm.config, lm.parameters, lm.tokens, options);
  EXPECT_EQ(one.result.loss, five.result.loss);
  for (const auto& [name, gradient] : one.gradients) {
    EXPECT_EQ(gradient.data, five.gradients.at(name).data) << name;
  }
}

// Equal logits cost ln V whatever the tokens, and the gradient of a token that is never read is 0.
TEST(LmLaws, AHeadOfZerosCostsTheLogarithmOfTheVocabulary) {
  RandomLm lm(4);
  lm.config.vocab_size += 1;
  for (const char* name : {"embed.weight", "lm_head.weight"}) {
    lm.parameters[name] = zeros({lm.config.vocab_size, lm.config.attention.dim});
  }
  const LmPass pass = language_model_with_gradients(lm.config, lm.parameters, lm.tokens);
  EXPECT_NEAR(pass.result.loss, std::log(static_cast<double>(lm.config.vocab_size)), 1e-14);
  EXPECT_EQ(pass.gradients.at("embed.weight").data.back(), 0);
}

std::string refusal(const std::function<void(RandomLm&, LmOptions&)>& spoil) {
  RandomLm lm(5);
  LmOptions options;
  spoil(lm, options);
  try {
    (void)language_model_with_gradients(lm.config, lm.parameters, lm.tokens, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "not refused";
}

TEST(LmInputs, RefusesImpossibleConfigs) {
  EXPECT_THAT(refusal([](auto& lm, auto&) { lm.config.n_layers = 0; }), HasSubstr("n_layers = 0"));
  EXPECT_THAT(refusal([](auto& lm, auto&) { lm.config.mlp_ratio = -1; }), HasSubstr("mlp_ratio"));
  EXPECT_THAT(refusal([](auto& lm, auto&) { lm.config.vocab_size = 0; }), HasSubstr("vocab_size"));
  EXPECT_THAT(refusal([](auto& lm, auto&) { lm.config.attention.d_k = 3; }), HasSubstr("d_k = 3"));
}

TEST(LmInputs, RefusesParametersThatDoNotFit) {
  EXPECT_THAT(refusal([](auto& lm, auto&) { lm.parameters.erase("norm_f.weight"); }),
              HasSubstr("parameter norm_f.weight is missing"));
  EXPECT_THAT(refusal([](auto& lm, auto&) { lm.parameters["blocks.7.x"] = {}; }),
              HasSubstr("blocks.7.x is not one"));
  EXPECT_THAT(refusal([](auto& lm, auto&) { lm.parameters["embed.weight"].shape[0] += 1; }),
              HasSubstr("embed.weight: found shape"));
  EXPECT_THAT(refusal([](auto& lm, auto&) { lm.parameters["lm_head.weight"].data[0] = NAN; }),
              HasSubstr("lm_head.weight: element 0 is nan"));
}

TEST(LmInputs, RefusesTokensThatDoNotFit) {
  EXPECT_THAT(refusal([](auto& lm, auto&) { lm.tokens.data[0] = -1; }), HasSubstr("found -1"));
  EXPECT_THAT(refusal([](auto& lm, auto&) { lm.tokens.data[1] = lm.config.vocab_size; }),
              HasSubstr("tokens: found"));
  EXPECT_THAT(refusal([](auto& lm, auto&) {
                lm.tokens = {{1, 1}, {0}};
              }),
              HasSubstr("S at least 2"));
  EXPECT_THAT(refusal([](auto& lm, auto&) { lm.tokens.data.pop_back(); }), HasSubstr("elements"));
}

TEST(LmInputs, RefusesBlocksOfTheWrongNumberOfLayers) {
  EXPECT_THAT(refusal([](auto& lm, auto& options) {
                options.replay.resize(static_cast<std::size_t>(lm.config.n_layers) + 1);
              }),
              HasSubstr("replay: found blocks of"));
}

}  // namespace
}  // namespace oracles::testing
