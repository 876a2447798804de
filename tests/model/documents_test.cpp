// Packed documents through attention and model: each is attended to as if it were alone, bit by bit, forward and back, with every
// back end of the selected branch; and what a recorder is shown lies where it belongs.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "nsa/model/nsa_lm.h"
#include "nsa/model/packed_attention.h"
#include "tests/model/variants.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

const DocumentLengths kDocuments{{5, 1, 84}, {60, 3, 27}};  // shorter than l, of one token, longer

Tensor rows_of(const Tensor& all, std::int64_t row, std::int64_t begin, std::int64_t length) {
  return all.narrow(0, row, 1).narrow(1, begin, length);
}

template <typename Visit>
void for_each_document(Visit visit) {
  for (std::size_t row = 0; row < kDocuments.size(); ++row) {
    std::int64_t begin = 0;
    for (const std::int64_t length : kDocuments[row]) {
      visit(static_cast<std::int64_t>(row), begin, length);
      begin += length;
    }
  }
}

class PackedAttention : public ::testing::TestWithParam<std::string> {};

TEST_P(PackedAttention, IsThatOfEachDocumentAlone) {
  for (const auto& [name, config] : variants()) {
    torch::manual_seed(3);
    Routes routes;
    Attention attention(
        config, 0, make_attention_seams(config, {{"attend_sel", GetParam()}}), routes);
    attention->to(torch::kDouble);
    const Tensor x_BSE = torch::randn({2, 90, config.dim}, torch::kDouble).requires_grad_();
    const Tensor dy_BSE = torch::randn({2, 90, config.dim}, torch::kDouble);
    AttentionTrace shown;
    attention->set_tap([&](const AttentionTrace& trace) { shown = trace; });
    attention->set_documents(kDocuments);
    const Tensor y_BSE = attention->forward(x_BSE);
    y_BSE.backward(dy_BSE);
    const AttentionTrace packed = shown;
    ASSERT_EQ(packed.documents.size(), 6U);
    EXPECT_EQ(packed.p_grp_BGSN.size(3), config.block_count(84));
    attention->set_documents({});
    for_each_document([&](std::int64_t row, std::int64_t begin, std::int64_t length) {
      const Tensor x_1SE = rows_of(x_BSE, row, begin, length).detach().clone().requires_grad_();
      const Tensor y_1SE = attention->forward(x_1SE);
      y_1SE.backward(rows_of(dy_BSE, row, begin, length));
      EXPECT_TRUE(torch::equal(rows_of(y_BSE, row, begin, length), y_1SE)) << name << begin;
      EXPECT_TRUE(torch::equal(rows_of(x_BSE.grad(), row, begin, length), x_1SE.grad()))
          << name << begin;
      const auto of_rows = [&](const Tensor& all) {
        return all.narrow(0, row, 1).narrow(2, begin, length);
      };
      EXPECT_TRUE(torch::equal(of_rows(packed.o_sel_BHSD), shown.o_sel_BHSD)) << name << begin;
      EXPECT_TRUE(torch::equal(of_rows(packed.blocks_BGSn), shown.blocks_BGSn)) << name << begin;
      EXPECT_TRUE(torch::equal(of_rows(packed.gate), shown.gate)) << name << begin;
      EXPECT_TRUE(torch::equal(of_rows(packed.p_grp_BGSN).narrow(3, 0, shown.p_grp_BGSN.size(3)),
                               shown.p_grp_BGSN))
          << name << begin;
    });
    const std::int64_t first = config.compressed_len(60);
    EXPECT_TRUE(torch::equal(packed.k_cmp_BGCD.select(0, 1).narrow(1, 0, first),
                             packed.documents[3].k_cmp_BGCD[0]))
        << name;
    EXPECT_EQ(packed.k_cmp_BGCD.size(2),
              std::max(config.compressed_len(5) + config.compressed_len(84),
                       first + config.compressed_len(3) + config.compressed_len(27)))
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(BackEnds,
                         PackedAttention,
                         ::testing::Values("reference", "masked", "gather"),
                         [](const auto& param) { return param.param; });

// The whole model: logits of a document are those of a model that is given this document alone.
TEST(PackedModel, KnowsNothingOfNeighbours) {
  torch::manual_seed(4);
  Routes routes;
  NsaLm model(small_config(), std::map<std::string, std::string>{}, routes);
  model->to(torch::kDouble);
  const Tensor tokens_BS = torch::randint(29, {2, 90}, torch::kLong);
  model->set_documents(kDocuments);
  const Tensor packed_BSV = model->forward(tokens_BS);
  model->set_documents({});
  for_each_document([&](std::int64_t row, std::int64_t begin, std::int64_t length) {
    const Tensor alone_1SV = model->forward(rows_of(tokens_BS, row, begin, length));
    const Tensor difference = rows_of(packed_BSV, row, begin, length) - alone_1SV;
    EXPECT_LT(difference.abs().max().item<double>(), 1e-12) << row << " " << begin;
  });
}

TEST(PackedModel, RefusesLengthsThatDoNotFit) {
  Routes routes;
  NsaLm model(small_config(), std::map<std::string, std::string>{}, routes);
  const Tensor tokens_BS = torch::zeros({1, 10}, torch::kLong);
  for (const DocumentLengths& wrong :
       {DocumentLengths{{4, 5}}, DocumentLengths{{10, 0}}, DocumentLengths{{5, 5}, {5, 5}}}) {
    model->set_documents(wrong);
    EXPECT_THROW(model->forward(tokens_BS), c10::Error);
  }
}

}  // namespace
}  // namespace nsa::testing
