// A failure on real ranks goes into a file, smaller, and another installation's folder sees it fail in the same way.
#include "harness/bundle/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/installed.h"

namespace e2e {
namespace {

using testing::HasSubstr;

TEST(Bundle, AFailureComesAgainElsewhereAndIsSmaller) {
  const Installed here;
  (void)here("run",
             {scenario("faults/averaged_twice"),
              "--set",
              "model={use: toy, n_layers: 3, n_sel: 4, w: 128}",
              "--profile",
              "base",
              "--json",
              "--quiet"});
  const std::string file = here.folder() + "/failure.tar.zst";
  const Told made = here("bundle", {"last", "1", "--out", file, "--seconds", "300", "--json"});
  ASSERT_EQ(made.exit_code, 0) << made.text;
  EXPECT_LT(made.out.at("bytes").get<int>(), 2'000'000);
  EXPECT_THAT(made.out.at("causes").at(0).get<std::string>(), HasSubstr("GRAD.SCALE"));
  const harness::Bundle bundle = harness::read_bundle_file(file);
  ASSERT_TRUE(bundle.original.has_value()) << made.text;
  EXPECT_EQ(bundle.failing.the_case.scenario.model.n_layers, 1);
  EXPECT_EQ(bundle.failing.the_case.scenario.parallel.ranks, 2)
      << "a mean over one rank cannot be taken twice";
  const Installed there;
  const Told replayed = there("replay", {file, "--json", "--quiet"});
  EXPECT_EQ(replayed.exit_code, 1) << replayed.text;
  EXPECT_EQ(replayed.out.at("replay").at("result"), "same") << replayed.text;
}

}  // namespace
}  // namespace e2e
