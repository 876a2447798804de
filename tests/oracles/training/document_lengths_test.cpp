// How long packed documents are: values worked out from the page, and what a sequence of them must be.
#include "oracles/training/document_lengths.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace oracles::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

DataConfig packed_data(std::int64_t length, std::int64_t documents) {
  return {.seed = 11,
          .accumulate = 2,
          .world = 2,
          .batch_size = 2,
          .seq_len = length,
          .documents = documents};
}

TEST(DocumentLengthsOfThePage, ValuesWorkedOut) {
  const DataConfig data = packed_data(300, 4);
  EXPECT_THAT(document_lengths(data, {1, 0, 0}),
              ElementsAre(ElementsAre(242, 35, 3, 20), ElementsAre(50, 2, 40, 208)));
  EXPECT_THAT(document_lengths(data, {1, 1, 1}),
              ElementsAre(ElementsAre(3, 1, 246, 50), ElementsAre(291, 7, 1, 1)));
  EXPECT_THAT(document_lengths(packed_data(10, 3), {1, 0, 1}),
              ElementsAre(ElementsAre(2, 6, 2), ElementsAre(1, 1, 8)));
}

TEST(DocumentLengthsOfThePage, FillTheSequence) {
  std::set<std::vector<std::int64_t>> seen;
  std::set<std::int64_t> of_first;
  for (std::int64_t step = 1; step <= 40; ++step) {
    for (const auto& lengths : document_lengths(packed_data(285, 5), {step, step % 2, 1})) {
      EXPECT_EQ(lengths.size(), 5u);
      EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), 285);
      EXPECT_GE(*std::min_element(lengths.begin(), lengths.end()), 1);
      EXPECT_GE(*std::max_element(lengths.begin(), lengths.end()), 143);
      seen.insert(lengths);
      of_first.insert(lengths.front());
    }
  }
  EXPECT_EQ(seen.size(), 80u);
  EXPECT_EQ(of_first.count(1), 1u) << "a document of one token";
  EXPECT_GE(*of_first.rbegin(), 143) << "the long one is not always the last";
}

TEST(DocumentLengthsOfThePage, OneDocumentIsNone) {
  EXPECT_THAT(document_lengths(packed_data(10, 1), {1, 0, 0}), IsEmpty());
}

TEST(DocumentLengthsOfThePage, AsManyAsHalfOfTheTokens) {
  EXPECT_NO_THROW((void)document_lengths(packed_data(11, 5), {1, 0, 0}));
  EXPECT_THROW((void)document_lengths(packed_data(11, 6), {1, 0, 0}), std::invalid_argument);
  EXPECT_THROW((void)document_lengths(packed_data(11, 0), {1, 0, 0}), std::invalid_argument);
}

}  // namespace
}  // namespace oracles::testing
