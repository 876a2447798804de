// What reports read of a case is the same whether steps that all ranks took alike were folded or not.
#include <gtest/gtest.h>

#include "harness/store/digest.h"
#include "tests/fakes/long_runs.h"

namespace harness {
namespace {

TEST(FoldedDigest, SaysOfFoldedStepsWhatTheWholeRecordSays) {
  for (const int ranks : {1, 2}) {
    const fakes::LongRun run{.ranks = ranks, .steps = 1'300, .recorded_every = 400};
    const auto whole = fakes::events_of(run);
    const auto some = fakes::folded(whole, 3'000, {});
    ASSERT_LT(2 * some.size(), whole.size());
    const Digest digest = digest_of(fakes::evidence_of(some));
    EXPECT_EQ(digest_text(digest), digest_text(digest_of(fakes::evidence_of(whole))));
    EXPECT_EQ(digest.series.at("loss").size(), 1'300U);
  }
}

}  // namespace
}  // namespace harness
