// The oracle against the golden attention files, every tensor of them.
#include "tests/oracles/golden.h"

#include <array>
#include <cstdlib>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace oracles::testing {
namespace {

// Two float64 implementations that sum in other orders: 64 sqrt(n) u with n = 331 terms, the
// longest sums of the files, is 1.3e-13; the next power of ten above it.
constexpr double kLimit = 1e-12;

struct Pair {
  std::string name;
  Tensor found;
  Tensor wanted;
};

// The largest error of a kind of tensors, all of them recorded against the limit.
double judge(const std::vector<Pair>& pairs) {
  double largest = 0;
  for (const Pair& pair : pairs) {
    largest = std::max(largest, largest_magnitude(pair.wanted));
  }
  double worst = 0;
  for (const Pair& pair : pairs) {
    const double error = relative_error(pair.found, pair.wanted, largest);
    EXPECT_LE(error, kLimit) << pair.name;
    worst = std::max(worst, error);
  }
  return worst;
}

std::vector<Pair> outputs(const GoldenFile& file, const AttentionResult& found) {
  const std::vector<std::pair<const char*, const Tensor*>> named{{"q", &found.q},
                                                                 {"k_cmp", &found.k_cmp},
                                                                 {"v_cmp", &found.v_cmp},
                                                                 {"p_grp", &found.p_grp},
                                                                 {"o_cmp", &found.o_cmp},
                                                                 {"o_sel", &found.o_sel},
                                                                 {"o_win", &found.o_win},
                                                                 {"gate", &found.gate},
                                                                 {"y", &found.y}};
  std::vector<Pair> pairs;
  for (const auto& [name, tensor] : named) {
    pairs.push_back({name, *tensor, file.tensor(name)});
  }
  return pairs;
}

std::vector<Pair> gradients(const GoldenFile& file, const AttentionGradients& found) {
  std::vector<Pair> pairs{{"g.x", found.x, file.tensor("g.x")}};
  for (const auto& [name, weight] : file.weights) {
    pairs.push_back({"g.w." + name, found.weights.at(name), file.tensor("g.w." + name)});
  }
  return pairs;
}

std::vector<Pair> one_hot_outputs(const GoldenFile& file) {
  const std::array<const char*, 3> names{"y_cmp", "y_sel", "y_win"};
  std::vector<Pair> pairs;
  for (std::size_t k = 0; k < names.size(); ++k) {
    AttentionOptions options;
    options.gate_override = {0, 0, 0};
    options.gate_override->at(k) = 1;
    const AttentionResult found = attention(file.config, file.weights, file.tensor("x"), options);
    pairs.push_back({names[k], found.y, file.tensor(names[k])});
  }
  return pairs;
}

double smallest(const Tensor& margins) {
  double value = std::numeric_limits<double>::infinity();
  for (const double margin : margins.data) {
    value = std::min(value, margin);
  }
  return value;
}

std::string text_of(double error) {
  std::ostringstream text;
  text << error;
  return text.str();
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, OutputsBlocksAndGradients) {
  const GoldenFile file("attention_" + GetParam());
  const AttentionPass pass =
      attention_with_gradients(file.config, file.weights, file.tensor("x"), file.tensor("dy"));
  EXPECT_EQ(pass.result.blocks.shape, file.blocks().shape);
  EXPECT_EQ(pass.result.blocks.data, file.blocks().data);
  EXPECT_EQ(pass.gradients.weights.size(), file.weights.size());
  RecordProperty("outputs", text_of(judge(outputs(file, pass.result))));
  RecordProperty("gradients", text_of(judge(gradients(file, pass.gradients))));
  RecordProperty("one_hot", text_of(judge(one_hot_outputs(file))));
}

TEST_P(Golden, MarginsAndTies) {
  const GoldenFile file("attention_" + GetParam());
  const AttentionResult found = attention(file.config, file.weights, file.tensor("x"));
  const auto ties = std::count(found.margin.data.begin(), found.margin.data.end(), 0.0);
  EXPECT_EQ(std::to_string(ties), file.metadata("tie_rows"));
  const double wanted = std::strtod(file.metadata("min_margin").c_str(), nullptr);
  if (std::isfinite(wanted)) {
    EXPECT_NEAR(smallest(found.margin), wanted, 1e-5 * wanted + 1e-12);
  } else {
    EXPECT_EQ(smallest(found.margin), wanted);
  }
}

TEST_P(Golden, ReplayOfTheGoldenBlocksIsTheOwnChoice) {
  const GoldenFile file("attention_" + GetParam());
  AttentionOptions options;
  options.replay = file.blocks();
  const AttentionResult replayed = attention(file.config, file.weights, file.tensor("x"), options);
  const AttentionResult own = attention(file.config, file.weights, file.tensor("x"));
  EXPECT_EQ(replayed.y.data, own.y.data);
  EXPECT_EQ(replayed.blocks.data, own.blocks.data);
}

INSTANTIATE_TEST_SUITE_P(EveryFile,
                         Golden,
                         ::testing::ValuesIn(golden_names("attention")),
                         [](const auto& param) { return param.param; });

// A folder that lost files would pass with what is left: the README lists 26 of them, and every
// variant is in one.
TEST(GoldenFolder, HoldsEveryVariant) {
  const std::vector<std::string> names = golden_names("attention");
  EXPECT_GE(names.size(), 26u);
  std::set<Phi> phis;
  std::set<Gate> gates;
  std::set<Eq9> maps;
  for (const std::string& name : names) {
    const AttentionConfig config = GoldenFile("attention_" + name).config;
    phis.insert(config.phi);
    gates.insert(config.gate);
    maps.insert(config.eq9);
  }
  EXPECT_EQ(phis.size(), 3u);
  EXPECT_EQ(gates.size(), 2u);
  EXPECT_EQ(maps.size(), 2u);
}

}  // namespace
}  // namespace oracles::testing
