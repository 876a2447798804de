// Which cards CUDA shows, from what nvidia-smi printed.
#include "harness/cli/machine/cards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using harness::cli::Card;
using harness::cli::Gpu;
using harness::cli::read_cards;
using harness::cli::visible_cards;
using testing::ElementsAre;
using testing::IsEmpty;
using Names = std::vector<std::string>;

// Three cards; the second is divided.
const char* const kQuery =
    "NVIDIA A100-SXM4-80GB, 81920, 580.65.06, GPU-aaaa1111-0000, Disabled, 8.0\n"
    "NVIDIA A100-SXM4-40GB, 40960, 580.65.06, GPU-bbbb2222-0000, Enabled, 8.0\n"
    "NVIDIA T4, 15360, 580.65.06, GPU-aaaa3333-0000, [N/A], 7.5\n";
const char* const kList =
    "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-aaaa1111-0000)\n"
    "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb2222-0000)\n"
    "  MIG 3g.20gb     Device  0: (UUID: MIG-cccc4444-0000)\n"
    "  MIG 1g.5gb      Device  1: (UUID: MIG-dddd5555-0000)\n"
    "GPU 2: NVIDIA T4 (UUID: GPU-aaaa3333-0000)\n";

Names shown(const std::optional<std::string>& visible) {
  Names ids;
  for (const Gpu& gpu : visible_cards(read_cards(kQuery, kList).cards, visible)) {
    ids.push_back(gpu.id.substr(0, 8));
  }
  return ids;
}

TEST(Cards, TheOnesThatAreNamedAndNotTheFirstSoMany) {
  EXPECT_THAT(shown("0"), ElementsAre("GPU-aaaa"));
  EXPECT_THAT(visible_cards(read_cards(kQuery, kList).cards, "2").at(0).name, "NVIDIA T4");
  EXPECT_EQ(visible_cards(read_cards(kQuery, kList).cards, "2, 0").at(1).memory_mib, 81920);
  EXPECT_THAT(visible_cards(read_cards(kQuery, kList).cards, "GPU-aaaa3").at(0).name, "NVIDIA T4");
}

TEST(Cards, TellTheirComputeCapability) {
  const auto cards = read_cards(kQuery, kList).cards;
  EXPECT_EQ(visible_cards(cards, "0").at(0).capability, 80);
  EXPECT_EQ(visible_cards(cards, "1").at(0).capability, 80) << "an instance has that of its card";
  EXPECT_EQ(visible_cards(cards, "2").at(0).capability, 75);
  for (const char* text : {"[N/A]", "", "8", "x.y", "8.", "-8.0", "8.00000000000000000001"}) {
    const std::string line = std::string("Card, 1, 580, GPU-1, Disabled, ") + text + "\n";
    EXPECT_EQ(visible_cards(read_cards(line, "").cards, "0").at(0).capability, 0) << text;
  }
}

TEST(Cards, EndAtTheFirstThatCudaDoesNotKnow) {
  EXPECT_THAT(shown(""), IsEmpty());
  EXPECT_THAT(shown("-1"), IsEmpty());
  EXPECT_THAT(shown("none"), IsEmpty());
  EXPECT_THAT(shown("0,9,2"), ElementsAre("GPU-aaaa"));
  EXPECT_THAT(shown("0,0"), ElementsAre("GPU-aaaa"));
  EXPECT_THAT(shown("GPU-aaaa"), IsEmpty()) << "two begin so";
  EXPECT_THAT(shown("GPU-ffff"), IsEmpty());
  EXPECT_THAT(shown("0,GPU-aaaa1"), ElementsAre("GPU-aaaa")) << "the same card twice";
}

TEST(Cards, AnInstanceIsACardOfItsOwnAndTheOnlyOne) {
  const std::vector<Card> cards = read_cards(kQuery, kList).cards;
  const std::vector<Gpu> instance = visible_cards(cards, "MIG-dddd");
  ASSERT_EQ(instance.size(), 1U);
  EXPECT_EQ(instance[0].name, "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
  EXPECT_EQ(instance[0].memory_mib, 4768) << "5 GB";
  EXPECT_THAT(shown("MIG-cccc,MIG-dddd"), ElementsAre("MIG-cccc"));
  EXPECT_THAT(shown("1"), ElementsAre("MIG-cccc")) << "of a divided card CUDA shows the first";
  EXPECT_THAT(shown("0,MIG-cccc"), ElementsAre("GPU-aaaa"));
  EXPECT_THAT(shown(std::nullopt), ElementsAre("GPU-aaaa", "GPU-aaaa")) << "the two whole ones";
}

TEST(Cards, AllWhereNothingIsSaid) {
  const std::string two =
      "A, 100, 1, GPU-1, Disabled, 8.0\nnot a card\n\nB, 200, 1, GPU-2, [N/A], 8.0\nC, 1\n";
  const harness::cli::Cards cards = read_cards(two, "");
  EXPECT_EQ(cards.driver, "1");
  EXPECT_EQ(visible_cards(cards.cards, std::nullopt).size(), 2U);
  EXPECT_THAT(visible_cards(read_cards("A, 100, 1, GPU-1, Enabled, 8.0\n", "").cards, std::nullopt),
              IsEmpty())
      << "divided, and no instance was made";
}

}  // namespace
