#include <set>

#include <gtest/gtest.h>

#include "harness/faults/list.h"
#include "harness/worker/fault.h"

namespace harness {
namespace {

TEST(Draw, RowsHaveTheShareAskedForAndNeverRowZero) {
  for (const double strength : {0.001, 0.05, 0.5, 1.0}) {
    for (std::int64_t seed = 0; seed < 20; ++seed) {
      FaultRequest request;
      request.strength = strength;
      request.seed = seed;
      const auto mask_BGS = draw_rows(request, 3, 1, 1, 2, 512);
      const auto set = mask_BGS.sum().item<std::int64_t>();
      EXPECT_GE(set, 1);
      EXPECT_EQ(mask_BGS.select(2, 0).sum().item<std::int64_t>(), 0);
      const double expected = strength * 2 * 511;
      EXPECT_NEAR(static_cast<double>(set), expected, 6 * std::sqrt(expected) + 1);
    }
  }
}

TEST(Draw, IsAPureFunctionOfTheSeed) {
  std::set<int> layers;
  for (std::int64_t seed = 0; seed < 200; ++seed) {
    FaultRequest request;
    request.seed = seed;
    EXPECT_EQ(fault_layers(request, 12), fault_layers(request, 12));
    layers.insert(fault_layers(request, 12).front());
  }
  EXPECT_EQ(layers.size(), 12U) << "every layer is drawn by some seed";
}

TEST(Draw, OneRankIsOneRank) {
  for (std::int64_t seed = 0; seed < 50; ++seed) {
    FaultRequest request;
    request.seed = seed;
    int holding = 0;
    for (int rank = 0; rank < 4; ++rank) {
      holding += fault_on_one_rank(request, rank, 4) ? 1 : 0;
    }
    EXPECT_EQ(holding, 1);
    request.rank = 2;
    EXPECT_TRUE(fault_on_one_rank(request, 2, 4));
    EXPECT_FALSE(fault_on_one_rank(request, 1, 4));
    EXPECT_FALSE(fault_on_rank(request, 1));
  }
}

TEST(Faults, NamesAreUniqueAndKnown) {
  std::set<std::string> names;
  for (const Fault& fault : all_faults()) {
    EXPECT_TRUE(names.insert(fault.name).second) << fault.name;
    EXPECT_NE(fault.install, nullptr);
    EXPECT_EQ(fault_named(fault.name).name, fault.name);
  }
  EXPECT_THROW(static_cast<void>(fault_named("no_such_fault")), std::exception);
}

}  // namespace
}  // namespace harness
