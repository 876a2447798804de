// What stands around the seams and looks on: who wrote into what, which operator made a NaN, how much memory is held.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "harness/worker/error_report.h"
#include "harness/worker/watch/memory_watch.h"
#include "harness/worker/watch/nan_watch.h"
#include "harness/worker/watch/seam_watch.h"
#include "tests/worker/channel_test_base.h"

namespace harness {
namespace {

class WatchTest : public tests::ChannelTest {
 protected:
  WatchTest() {
    torch::manual_seed(1);
    model_ = nsa::NsaLm(tests::small_model(2), std::map<std::string, std::string>{}, routes_);
    x_BSE_ = torch::randn({1, 40, 16}, torch::requires_grad());
  }

  nsa::AttentionSeams& seams(int layer) { return model_->attention(layer)->seams(); }

  // One forward and backward of `layer` under both watches.
  std::optional<NanBirth> birth_in(int layer) {
    const NanWatch nan(watch_, 1, false);
    model_->attention(layer)->forward(x_BSE_).sum().backward();
    return nan.birth();
  }

  nsa::Routes routes_;
  nsa::NsaLm model_{nullptr};
  torch::Tensor x_BSE_;
  Progress progress_;
  SeamWatch watch_{channel_, progress_};
};

TEST_F(WatchTest, NobodyWritesIntoWhatHeIsGivenInAHealthyLayer) {
  watch_.install(model_);
  EXPECT_FALSE(birth_in(0).has_value());
  watch_.write_total();
  EXPECT_TRUE(written<Mutation>().empty());
  ASSERT_EQ(written<Fact>().size(), 2U);
  EXPECT_GE(std::stoi(written<Fact>().front().value), 10);
}

TEST_F(WatchTest, TheLayerThatRunsIsToldWhileItRuns) {
  std::vector<int> told;
  for (int layer = 0; layer < 2; ++layer) {
    seams(layer).attend_win = [&, inner = seams(layer).attend_win](const nsa::SeamContext& context,
                                                                   const torch::Tensor& q,
                                                                   const torch::Tensor& k,
                                                                   const torch::Tensor& v) {
      told.push_back(progress_.heartbeat().layer);
      return inner(context, q, k, v);
    };
  }
  watch_.install(model_);
  (void)birth_in(1);
  (void)birth_in(0);
  EXPECT_EQ(told, (std::vector<int>{1, 0}));
}

TEST_F(WatchTest, WhoMakesTheHostWaitIsNamedAndTheWatchesAreNot) {
  seams(1).attend_win = [inner = seams(1).attend_win](const nsa::SeamContext& context,
                                                      const torch::Tensor& q,
                                                      const torch::Tensor& k,
                                                      const torch::Tensor& v) {
    (void)q.detach().abs().max().item<double>();
    return inner(context, q, k, v);
  };
  watch_.install(model_);
  for (int layer = 0; layer < 2; ++layer) (void)birth_in(layer);
  (void)birth_in(1);
  watch_.write_total();
  const Fact waits = written<Fact>().back();
  EXPECT_EQ(waits.name, "host_waits");
  EXPECT_EQ(waits.value, R"([["attend_win",1,2,2]])");
}

TEST_F(WatchTest, TheSeamThatAnExceptionLeftIsRemembered) {
  WorkerError error;
  error.type = "c10::OutOfMemoryError";
  EXPECT_FALSE(seam_to_blame(error)) << "no seam threw";
  const auto gate = seams(0).gate;
  seams(0).gate = [](auto&&...) -> torch::Tensor { throw std::runtime_error("boom"); };
  watch_.install(model_);
  EXPECT_ANY_THROW(model_->attention(0)->forward(x_BSE_));
  ASSERT_TRUE(seam_to_blame(error));
  EXPECT_EQ(seam_to_blame(error)->value, R"(["gate",0])");
  WorkerError late;
  late.type = "c10::AcceleratorError";
  EXPECT_FALSE(seam_to_blame(late)) << "the kernel that failed may have been an earlier one";
  seams(0).gate = gate;
  (void)model_->attention(1)->forward(x_BSE_);
  EXPECT_FALSE(seam_to_blame(error)) << "others ran since";
}

TEST_F(WatchTest, WritingIntoTheBlocksIsNamedAndTheyAreKeptAsChosen) {
  seams(1).attend_sel = [inner = seams(1).attend_sel](const nsa::SeamContext& context,
                                                      const torch::Tensor& q,
                                                      const torch::Tensor& k,
                                                      const torch::Tensor& v,
                                                      const torch::Tensor& blocks) {
    const auto out = inner(context, q, k, v, blocks);
    blocks.data().slice(3, 0, 1).add_(1);  // past autograd's version counter
    return out;
  };
  watch_.install(model_);
  (void)birth_in(1);
  const auto rows = written<Mutation>();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front().layer, 1);
  EXPECT_EQ(rows.front().seam, "attend_sel");
  EXPECT_EQ(rows.front().tensor, "blocks");
  EXPECT_EQ(rows.front().elements, 2 * 40);
  EXPECT_EQ(watch_.blocks(1)[0][0][0][0].item<std::int64_t>(), 0);
}

TEST_F(WatchTest, WritingIntoTheQueriesIsNamed) {
  seams(0).attend_win = [inner = seams(0).attend_win](const nsa::SeamContext& context,
                                                      const torch::Tensor& q,
                                                      const torch::Tensor& k,
                                                      const torch::Tensor& v) {
    const torch::NoGradGuard no_grad;
    q.detach().mul_(1.0);
    return inner(context, q, k, v);
  };
  watch_.install(model_);
  const torch::NoGradGuard no_grad;
  (void)model_->attention(0)->forward(x_BSE_);
  const auto rows = written<Mutation>();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front().seam, "attend_win");
  EXPECT_EQ(rows.front().tensor, "q");
}

// Past autograd's version counter: a raw pointer, as a kernel of one's own has it.
TEST_F(WatchTest, WritingIntoTheKeysPastAutogradIsSeenByTheirValues) {
  seams(1).attend_sel = [inner = seams(1).attend_sel](const nsa::SeamContext& context,
                                                      const torch::Tensor& q,
                                                      const torch::Tensor& k,
                                                      const torch::Tensor& v,
                                                      const torch::Tensor& blocks) {
    const auto out = inner(context, q, k, v, blocks);
    k.data().select(2, 3).add_(1);
    return out;
  };
  watch_.install(model_);
  const torch::NoGradGuard no_grad;
  (void)model_->attention(1)->forward(x_BSE_);
  const auto rows = written<Mutation>();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front().layer, 1);
  EXPECT_EQ(rows.front().tensor, "k");
  EXPECT_GT(rows.front().elements, 0);
  EXPECT_EQ(rows.front().seen_by, "values");
}

// Of what is too large for a copy the sum of all bits tells, past autograd's counter as well.
TEST_F(WatchTest, WritingIntoALargeTensorIsSeenByTheSumOfItsBits) {
  seams(1).attend_sel = [](const nsa::SeamContext&,
                           const torch::Tensor& q,
                           const torch::Tensor& k,
                           const torch::Tensor&,
                           const torch::Tensor&) {
    k.data().view(-1).narrow(0, 5, 1).add_(1);
    return q;
  };
  watch_.install(model_);
  const torch::NoGradGuard no_grad;
  const nsa::ModelConfig config = model_->config();
  const auto large = torch::zeros({1, 1, (std::int64_t{9} << 20) / 16, 4});
  const auto small = torch::zeros({1, 1, 1, 4});
  (void)seams(1).attend_sel({config, 1, routes_}, small, large, large.clone(), small);
  const auto rows = written<Mutation>();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front().tensor, "k");
  EXPECT_EQ(rows.front().elements, large.numel());
  EXPECT_EQ(rows.front().seen_by, "sum of all bits");
}

TEST_F(WatchTest, ANaNsFirstOperatorLayerAndSeamAreNamed) {
  seams(1).attend_win = [inner = seams(1).attend_win](const nsa::SeamContext& context,
                                                      const torch::Tensor& q,
                                                      const torch::Tensor& k,
                                                      const torch::Tensor& v) {
    const auto scores = torch::full({3, 4}, -INFINITY);  // rows without any key
    return inner(context, q, k, v) + scores.softmax(-1).sum();
  };
  watch_.install(model_);
  EXPECT_FALSE(birth_in(0).has_value());
  const auto birth = birth_in(1);
  ASSERT_TRUE(birth.has_value());
  EXPECT_EQ(birth->op, "softmax");
  EXPECT_EQ(birth->layer, 1);
  EXPECT_EQ(birth->seam, "attend_win");
  EXPECT_EQ(birth->direction, "forward");
  EXPECT_EQ(birth->shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(birth->elements, 12);
}

// sqrt at 0 is finite; its gradient is infinite, and infinity times the 0 that comes back is not.
TEST_F(WatchTest, ANaNOfTheBackwardIsNamedByTheSeamOfItsForward) {
  seams(0).gate = [inner = seams(0).gate](const nsa::SeamContext& context,
                                          const torch::Tensor& x,
                                          const torch::Tensor& q,
                                          const nsa::GateWeights& weights) {
    return inner(context, x, q, weights) + ((x.sum() * 0.0).sqrt() * 0.0);
  };
  watch_.install(model_);
  const auto birth = birth_in(0);
  ASSERT_TRUE(birth.has_value());
  EXPECT_EQ(birth->direction, "backward");
  EXPECT_EQ(birth->layer, 0);
  EXPECT_EQ(birth->seam, "gate");
}

// A hook runs between the operators of a backward.
TEST_F(WatchTest, ANaNThatAHookWritesIsOneOfTheBackward) {
  seams(0).gate = [inner = seams(0).gate](const nsa::SeamContext& context,
                                          const torch::Tensor& x,
                                          const torch::Tensor& q,
                                          const nsa::GateWeights& weights) {
    const torch::Tensor gates = inner(context, x, q, weights);
    gates.register_hook(
        [](const torch::Tensor& gradient) { return torch::full_like(gradient, NAN); });
    return gates;
  };
  watch_.install(model_);
  const NanWatch nan(watch_, 1, false);
  model_->attention(0)->forward(x_BSE_).sum().backward();
  EXPECT_FALSE(nan.birth().has_value()) << "no operator made it out of other numbers";
  EXPECT_EQ(nan.certificate().direction, "backward");
  EXPECT_TRUE(std::isnan(nan.certificate().largest_input));
}

TEST(MemoryWatch, CountsWhatIsHeldAndTheMostThatWas) {
  const MemoryWatch memory(torch::kCPU);
  constexpr std::int64_t kBytes = 4 << 20;
  const std::int64_t before = memory.held_bytes();
  const auto kept = torch::zeros({kBytes / 4}, torch::kFloat32);
  EXPECT_EQ(memory.held_bytes() - before, kBytes);
  { const auto passing = torch::zeros({kBytes / 2}, torch::kFloat32); }
  EXPECT_EQ(memory.held_bytes() - before, kBytes);
  EXPECT_GE(memory.peak_bytes() - before, 3 * kBytes);
}

TEST(MemoryWatch, SeesWhatAnotherThreadFrees) {
  const MemoryWatch memory(torch::kCPU);
  constexpr std::int64_t kBytes = 4 << 20;
  auto first = torch::zeros({1}, torch::kFloat32);
  const std::int64_t before = memory.held_bytes();
  auto sent = torch::zeros({kBytes / 4}, torch::kFloat32);
  EXPECT_EQ(memory.held_bytes() - before, kBytes);
  std::thread([tensor = std::move(sent)]() mutable { tensor.reset(); }).join();
  first = torch::zeros({1}, torch::kFloat32);  // the total is told with what this thread does next
  EXPECT_EQ(memory.held_bytes(), before);
}

TEST(MemoryWatch, ThePeakStartsAgain) {
  MemoryWatch memory(torch::kCPU);
  { const auto passing = torch::zeros({1 << 20}, torch::kFloat32); }
  memory.reset_peak();
  EXPECT_EQ(memory.peak_bytes(), memory.held_bytes());
}

}  // namespace
}  // namespace harness
