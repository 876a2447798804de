// The fake manifest, by which scenarios are read in tests without a worker, names what the built worker really can do.
#include "tests/fakes/manifest.h"

#include <gtest/gtest.h>

#include "harness/cli/command.h"
#include "tests/fakes/where.h"

namespace {

TEST(Manifest, TheFakeOneIsTheWorkersOwn) {
  const auto result =
      harness::cli::run_command({fakes::programs() + "/nsa-harness-worker", "--manifest"}, 60'000);
  ASSERT_EQ(result.exit_code, 0);
  const harness::Manifest real = harness::parse_manifest(result.out, "--manifest");
  const harness::Manifest fake = fakes::worker_manifest();
  EXPECT_EQ(fake.kinds, real.kinds);
  EXPECT_EQ(fake.seams, real.seams);
  ASSERT_EQ(fake.faults.size(), real.faults.size());
  for (std::size_t i = 0; i < real.faults.size(); ++i) {
    EXPECT_EQ(fake.faults[i].name, real.faults[i].name);
    EXPECT_EQ(fake.faults[i].uses, real.faults[i].uses) << real.faults[i].name;
    EXPECT_EQ(fake.faults[i].forms, real.faults[i].forms) << real.faults[i].name;
  }
}

}  // namespace
