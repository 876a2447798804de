// Which parameters a Reducer gets, by those that it has.
#include "nsa/parallel/make_reducer.h"

#include <string>

#include <gtest/gtest.h>

namespace {

using Caps = std::vector<std::int64_t>;

struct OldReducer {
  OldReducer(std::string group, std::int64_t first_bucket) : told(group), first(first_bucket) {}
  std::string told;
  std::int64_t first;
};
struct ReducerOf210 : OldReducer {
  ReducerOf210(std::string group, std::int64_t first_bucket, bool skip, bool python)
      : OldReducer(group, first_bucket), asked(skip || python) {}
  bool asked;
};
struct ReducerOf211 : ReducerOf210 {
  ReducerOf211(std::string group, std::int64_t first_bucket, bool skip, bool python, Caps list)
      : ReducerOf210(group, first_bucket, skip, python), caps(list) {}
  Caps caps;
};
struct ReducerOf215 : ReducerOf211 {
  ReducerOf215(std::string group,
               std::int64_t first_bucket,
               bool skip,
               bool python,
               Caps list,
               bool batched_copy = false,
               bool lazy = false)
      : ReducerOf211(group, first_bucket, skip, python, list), more(batched_copy || lazy) {}
  bool more;
};

template <typename Reducer>
class MakeReducer : public testing::Test {};
using Releases = testing::Types<OldReducer, ReducerOf210, ReducerOf211, ReducerOf215>;
TYPED_TEST_SUITE(MakeReducer, Releases);

TYPED_TEST(MakeReducer, GivesEachReleaseWhatItHas) {
  const std::string group = "ranks";
  const auto reducer = nsa::make_reducer<TypeParam>(group, std::int64_t{7});
  EXPECT_EQ(reducer->told, "ranks");
  EXPECT_EQ(reducer->first, 7);
  if constexpr (std::is_base_of_v<ReducerOf210, TypeParam>) {
    EXPECT_FALSE(reducer->asked);
  }
  if constexpr (std::is_base_of_v<ReducerOf211, TypeParam>) {
    EXPECT_TRUE(reducer->caps.empty());
  }
  if constexpr (std::is_base_of_v<ReducerOf215, TypeParam>) {
    EXPECT_FALSE(reducer->more);
  }
}

}  // namespace
