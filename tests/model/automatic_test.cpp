// `auto` in a route where no card is: the reference, with the reason of everything faster, and no seam that was not resolved.
#include "nsa/seams/automatic.h"

#include "nsa/base/error.h"
#include "tests/model/support.h"

namespace nsa::testing {
namespace {

using AskedRoute = std::map<std::string, std::string>;

const Surroundings kOnCpu = {torch::kCPU, torch::kBFloat16};

std::vector<std::string> told(const ResolvedRoute& resolved) {
  std::vector<std::string> lines;
  for (const Candidate& candidate : resolved.candidates) {
    lines.push_back(candidate.seam + " " + candidate.implementation + ": " + candidate.passed_over);
  }
  return lines;
}

TEST(Automatic, IsTheReferenceOnACpu) {
  AskedRoute all;
  for (const auto& [seam, names] : seam_implementations()) {
    if (has_automatic(seam)) all[seam] = kAutomatic;
  }
  ASSERT_EQ(all.size(), 10U);
  const ResolvedRoute resolved = resolve_route(ModelConfig(), all, kOnCpu);
  for (const auto& [seam, name] : resolved.route) EXPECT_EQ(name, "reference") << seam;
  std::map<std::string, int> taken;
  for (const Candidate& candidate : resolved.candidates) {
    EXPECT_EQ(candidate.passed_over.empty(), candidate.implementation == "reference")
        << candidate.seam << " " << candidate.implementation;
    if (candidate.passed_over.empty()) ++taken[candidate.seam];
  }
  EXPECT_EQ(taken.size(), all.size());
}

TEST(Automatic, TellsWhyTheFasterOnesWerePassedOver) {
  const auto lines =
      told(resolve_route(ModelConfig(), {{"mlp", "auto"}, {"attend_win", "auto"}}, kOnCpu));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[1], "attend_win fa2_varlen: device cpu: its kernels are for CUDA");
  EXPECT_EQ(lines[2], "attend_win reference: ");
  EXPECT_EQ(lines[3], "mlp lean: device cpu: it was measured on cards alone");
  EXPECT_EQ(lines[4], "mlp reference: ");
}

TEST(Automatic, LeavesWhatIsNamedAsItIs) {
  const AskedRoute route = {{"attend_win", "sdpa"}, {"mlp", "lean"}};
  const ResolvedRoute resolved = resolve_route(ModelConfig(), route, kOnCpu);
  EXPECT_EQ(resolved.route, route);
  EXPECT_TRUE(resolved.candidates.empty());
}

TEST(Automatic, IsRefusedWhereThereIsNoChoice) {
  for (const char* seam : {"gate", "data", "grad_sync", "nowhere"}) {
    EXPECT_THROW((void)resolve_route(ModelConfig(), {{seam, "auto"}}, kOnCpu), Error) << seam;
  }
}

// A seam that nobody resolved would be empty.
TEST(Automatic, MakesNoSeam) {
  EXPECT_THROW((void)make_attention_seams(ModelConfig(), {{"attend_win", "auto"}}), Error);
  EXPECT_THROW(check_route(ModelConfig(), {{"attend_win", "auto"}}, kOnCpu), Error);
}

}  // namespace
}  // namespace nsa::testing
