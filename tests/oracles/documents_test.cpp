// Attention over packed documents: each as if it were alone, to the last bit; and what crosses their border, said a second time.
#include "oracles/attention/documents.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracles/laws/document_laws.h"
#include "tests/oracles/random_layer.h"

namespace oracles::testing {
namespace {

AttentionConfig small_attention() {
  AttentionConfig config;
  config.dim = 6;
  config.n_heads = 4;
  config.n_kv_groups = 2;
  config.d_k = 4;
  config.d_v = 3;
  config.l = 4;
  config.d = 2;
  config.l_sel = 4;
  config.n_sel = 3;
  config.w = 5;
  return config;
}

const DocumentLengths kPacked{{7, 1, 22}, {1, 3, 26}};
constexpr std::int64_t kTokens = 30;

struct PackedLayer {
  AttentionConfig config = small_attention();
  Weights weights;
  Tensor x;
  Tensor dy;

  PackedLayer() {
    Random random(9);
    for (const auto& [name, shape] : weight_shapes(config)) {
      weights[name] = random.tensor(shape, 0.5);
    }
    x = random.tensor({2, kTokens, config.dim}, 1);
    dy = random.tensor({2, kTokens, config.dim}, 1);
  }

  [[nodiscard]] Tensor rows(const Tensor& all, const DocumentPlace& at) const {
    Tensor part{{1, at.length, config.dim}, {}};
    const auto begin = all.data.begin() + (at.row * kTokens + at.begin) * config.dim;
    part.data.assign(begin, begin + at.length * config.dim);
    return part;
  }
};

TEST(PackedDocuments, EachIsAsIfItWereAlone) {
  const PackedLayer layer;
  const DocumentResult all = attention_of_documents(layer.config, layer.weights, layer.x, kPacked);
  const DocumentPass pass = attention_of_documents_with_gradients(
      layer.config, layer.weights, layer.x, layer.dy, kPacked);
  Weights sums;
  for (const DocumentPlace& at : document_places(kPacked)) {
    const AttentionPass alone = attention_with_gradients(
        layer.config, layer.weights, layer.rows(layer.x, at), layer.rows(layer.dy, at));
    EXPECT_EQ(layer.rows(all.y, at).data, alone.result.y.data) << at.row << " " << at.number;
    EXPECT_EQ(layer.rows(pass.dx, at).data, alone.gradients.x.data) << at.row << " " << at.number;
    EXPECT_EQ(tokens_of(all.blocks, at).data, alone.result.blocks.data);
    for (const auto& [name, gradient] : alone.gradients.weights) {
      Tensor& sum = sums.try_emplace(name, zeros(gradient.shape)).first->second;
      for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += gradient.data[i];
    }
  }
  for (const auto& [name, sum] : sums) EXPECT_EQ(pass.weights.at(name).data, sum.data) << name;
}

// Other tokens in one document leave all others as they are, bit by bit.
TEST(PackedDocuments, KnowNothingOfTheirNeighbours) {
  const PackedLayer layer;
  const DocumentPass before = attention_of_documents_with_gradients(
      layer.config, layer.weights, layer.x, layer.dy, kPacked);
  const DocumentResult right =
      attention_of_documents(layer.config, layer.weights, layer.x, kPacked);
  for (const DocumentPlace& changed : document_places(kPacked)) {
    PackedLayer other;
    const std::int64_t first = (changed.row * kTokens + changed.begin) * layer.config.dim;
    for (std::int64_t i = first; i < first + changed.length * layer.config.dim; ++i) {
      other.x.data[static_cast<std::size_t>(i)] += 1;
    }
    const DocumentResult y = attention_of_documents(layer.config, layer.weights, other.x, kPacked);
    const DocumentPass dx = attention_of_documents_with_gradients(
        layer.config, layer.weights, other.x, layer.dy, kPacked);
    for (const DocumentPlace& at : document_places(kPacked)) {
      const bool same = at.row != changed.row || at.number != changed.number;
      EXPECT_EQ(layer.rows(y.y, at).data == layer.rows(right.y, at).data, same);
      if (same) {
        EXPECT_EQ(layer.rows(dx.dx, at).data, layer.rows(before.dx, at).data);
      }
    }
  }
}

TEST(PackedDocuments, OneDocumentIsTheSequence) {
  const PackedLayer layer;
  const AttentionResult whole = attention(layer.config, layer.weights, layer.x);
  const DocumentLengths one{{kTokens}, {kTokens}};
  EXPECT_EQ(attention_of_documents(layer.config, layer.weights, layer.x, one).y.data, whole.y.data);
  const DocumentResult none = attention_of_documents(layer.config, layer.weights, layer.x, {});
  EXPECT_EQ(none.y.data, whole.y.data);
  EXPECT_EQ(none.blocks.data, whole.blocks.data);
  EXPECT_EQ(none.margin.data, whole.margin.data);
}

TEST(PackedDocuments, LengthsThatDoNotFitAreRefused) {
  const PackedLayer layer;
  const std::vector<DocumentLengths> wrong{
      {{kTokens}}, {{10, 20}, {10, 21}}, {{0, 30}, {10, 20}}, {{31, -1}, {10, 20}}};
  for (const DocumentLengths& lengths : wrong) {
    EXPECT_THROW((void)attention_of_documents(layer.config, layer.weights, layer.x, lengths),
                 std::invalid_argument);
  }
  AttentionOptions some;
  some.rows = {3};
  EXPECT_THROW((void)attention_of_documents(layer.config, layer.weights, layer.x, kPacked, some),
               std::invalid_argument);
}

// ---- laws ------------------------------------------------------------------------------------------

// Random queries of the last document of a sequence, and keys of all three.
struct CrossingCase {
  AttentionConfig config = small_attention();
  DocumentPlace at{0, 2, 9, 14};
  Tensor q, keys, values;
  IntTensor blocks;
  std::int64_t before = 0;

  explicit CrossingCase(Branch branch) {
    Random random(31);
    // Documents of 8, 1 and 14 tokens: 3, 0 and 6 compressed tokens.
    before = branch == Branch::cmp ? 3 : 9;
    const std::int64_t count = branch == Branch::cmp ? 9 : 23;
    q = random.tensor({1, 2, 2, 14, 4}, 1);
    keys = random.tensor({1, 2, count, 4}, 1);
    values = random.tensor({1, 2, count, 3}, 1);
    blocks = filled<std::int64_t>({1, 2, 14, 3}, -1);
    for (std::int64_t g = 0; g < 2; ++g) {
      for (std::int64_t t = 0; t < 14; ++t) {
        std::int64_t* list = blocks.data.data() + (g * 14 + t) * 3;
        *list++ = g == 0 ? 0 : t / 8;
        if (t >= 8) *list = t / 4;
      }
    }
  }

  [[nodiscard]] Tensor under_law(Branch branch) const {
    return output_across_documents(branch, {config, at, q, keys, values, before, blocks});
  }

  // Is key u of the sequence attended to by row t of the document?
  [[nodiscard]] bool sees(Branch branch, std::int64_t g, std::int64_t t, std::int64_t u) const {
    if (branch == Branch::cmp) return u < 3 || (u - 3) * 2 + 3 <= t;
    const std::int64_t in_sequence = 9 + t;
    if (u > in_sequence) return false;
    if (branch == Branch::win) return u > in_sequence - 5;
    const auto list = blocks.data.begin() + (g * 14 + t) * 3;
    return std::find(list, list + 3, u / 4) != list + 3;
  }
};

class CrossingLaws : public ::testing::TestWithParam<Branch> {};

TEST_P(CrossingLaws, InPlainLoops) {
  const CrossingCase c(GetParam());
  const Tensor found = c.under_law(GetParam());
  const std::int64_t count = c.keys.shape[2];
  for (std::int64_t head = 0; head < 4; ++head) {
    const std::int64_t g = head / 2;
    for (std::int64_t t = 0; t < 14; ++t) {
      double sum = 0;
      std::vector<double> out(3, 0.0);
      for (std::int64_t u = 0; u < count; ++u) {
        if (!c.sees(GetParam(), g, t, u)) continue;
        double product = 0;
        for (std::int64_t i = 0; i < 4; ++i) {
          product += c.q.data[(head * 14 + t) * 4 + i] * c.keys.data[(g * count + u) * 4 + i];
        }
        const double p = std::exp(product / 2);
        sum += p;
        for (std::int64_t i = 0; i < 3; ++i) out[i] += p * c.values.data[(g * count + u) * 3 + i];
      }
      for (std::int64_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(found.data[(head * 14 + t) * 3 + i], out[i] / sum, 1e-13) << head << " " << t;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryBranch,
                         CrossingLaws,
                         ::testing::Values(Branch::cmp, Branch::sel, Branch::win));

TEST(CrossingLawsInAll, OneForEachBranch) {
  std::vector<std::string_view> names;
  for (const Branch branch : {Branch::cmp, Branch::sel, Branch::win}) {
    EXPECT_EQ(crossing_law(branch).branch, branch);
    names.push_back(crossing_law(branch).law.name);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_EQ(crossing_laws().size(), 3u);
}

}  // namespace
}  // namespace oracles::testing
