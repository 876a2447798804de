// The share of each micro-batch in a gradient: taken once, also where a checkpointed layer computes its gradients again.
#include "harness/worker/record/step_recorder.h"

#include <filesystem>
#include <string>

#include "nsa/base/safetensors.h"
#include "nsa/base/temporary_folder.h"
#include "nsa/train/activation_checkpoint.h"
#include "tests/worker/channel_test_base.h"

namespace harness {
namespace {

constexpr std::int64_t kMicros = 3;

class StepRecorderTest : public tests::ChannelTest {
 protected:
  // One step of kMicros micro-batches whose gradients are added up. Returns the largest difference between a parameter's gradient
  // and the sum of its recorded shares.
  double worst_difference(const std::vector<int>& layers, const std::string& mode) {
    torch::manual_seed(1);
    nsa::Routes routes;
    nsa::NsaLm model(tests::small_model(3), std::map<std::string, std::string>{}, routes);
    nsa::ParallelConfig parallel;
    parallel.checkpoint_layers = layers;
    parallel.checkpoint_mode = mode;
    const nsa::ActivationCheckpoint checkpoint(model, parallel, routes);
    nsa::NamedParameters parameters;
    for (const auto& item : model->named_parameters())
      parameters.emplace_back(item.key(), item.value());
    nsa::Optimizer optimizer(model->parameters(), nsa::OptimizerConfig{});
    StepRecorder recorder(parameters, optimizer, {.enabled = true, .micros = kMicros});
    Progress progress;
    const ArtefactOut out{channel_, progress, folder_ / "", "."};
    recorder.begin(1, out);
    for (std::int64_t micro = 0; micro < kMicros; ++micro) {
      const auto tokens_BS = torch::randint(32, {1, 40}, torch::kLong);
      const auto logits_BSV = model->forward(tokens_BS);
      recorder.logits(tokens_BS, logits_BSV);
      const auto loss = nsa::next_token_loss(logits_BSV, tokens_BS);
      recorder.loss(loss, loss);
      loss.backward();
    }
    recorder.end();
    const nsa::SafetensorsFile file(folder_ / "optimizer_step.safetensors");
    double worst = 0.0;
    for (const auto& [name, parameter] : parameters) {
      const auto gradient = parameter.grad().to(torch::kFloat64).flatten();
      auto sum = torch::zeros_like(gradient);
      for (std::int64_t micro = 0; micro < kMicros; ++micro) {
        const auto& part = file.at("part." + std::to_string(micro) + "." + name);
        sum += torch::tensor(nsa::to_doubles(part), torch::kFloat64);
      }
      worst = std::max(worst, (gradient - sum).abs().max().item<double>());
    }
    return worst;
  }

  nsa::TemporaryFolder folder_;
};

TEST_F(StepRecorderTest, SharesOfMicroBatchesAddUpToTheGradient) {
  EXPECT_LT(worst_difference({}, "functional"), 1e-5);
}

TEST_F(StepRecorderTest, ACheckpointedLayerIsCountedOnce) {
  EXPECT_LT(worst_difference({0, 2}, "functional"), 1e-5);
  EXPECT_LT(worst_difference({0, 2}, "nested"), 1e-5);
}

// The first step overflows and is left out; then somebody writes to the weights. What the optimiser goes on with are its masters.
TEST_F(StepRecorderTest, MastersAreTheOptimisersAlsoAfterAStepThatIsLeftOut) {
  constexpr float kValue = 0.25F;
  torch::Tensor weight = torch::full({4}, kValue, torch::kHalf).requires_grad_(true);
  const nsa::NamedParameters parameters = {{"weight", weight}};
  nsa::Optimizer optimizer({weight}, nsa::OptimizerConfig{}, nsa::Precision::fp16);
  StepRecorder recorder(parameters, optimizer, {.enabled = true});
  Progress progress;
  recorder.begin(1, {channel_, progress, folder_ / "", "."});
  weight.mutable_grad() = torch::full_like(weight, INFINITY);
  optimizer.step();
  recorder.end();
  ASSERT_EQ(optimizer.skipped(), 1);
  {
    const torch::NoGradGuard no_grad;
    weight.fill_(2.0F * kValue);
  }
  recorder.begin(2, {channel_, progress, folder_ / "", "."});
  recorder.end();
  const nsa::SafetensorsFile file(folder_ / "optimizer_step.safetensors");
  EXPECT_EQ(nsa::to_doubles(file.at("p.weight")), std::vector<double>(4, kValue));
  EXPECT_EQ(nsa::to_doubles(file.at("w.weight")), std::vector<double>(4, 2.0 * kValue));
}

}  // namespace
}  // namespace harness
