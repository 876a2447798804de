// What is said of a layer that is computed again: nothing changed, other blocks, other weights; and of outputs that somebody
// wrote to between forward and backward.
#include <filesystem>
#include <string>
#include <vector>

#include "harness/worker/record/gradient_ledger.h"
#include "harness/worker/record/layer_recorder.h"
#include "harness/worker/watch/recompute_watch.h"
#include "harness/worker/watch/seam_watch.h"
#include "nsa/base/safetensors.h"
#include "tests/worker/channel_test_base.h"

namespace harness {
namespace {

class RecomputeTest : public tests::ChannelTest {
 protected:
  RecomputeTest() {
    torch::manual_seed(1);
    model_ = nsa::NsaLm(tests::small_model(3), std::map<std::string, std::string>{}, routes_);
    tokens_BS_ = torch::randint(32, {1, 40}, torch::kLong);
  }

  void checkpoint(const std::vector<int>& layers, const std::string& mode = "functional") {
    nsa::ParallelConfig parallel;
    parallel.checkpoint_layers = layers;
    parallel.checkpoint_mode = mode;
    checkpoint_ = std::make_unique<nsa::ActivationCheckpoint>(model_, parallel, routes_);
  }
  std::vector<Recompute> run() {
    RecomputeWatch watch(channel_, *checkpoint_, model_, "functional");
    watch.begin(7, 2);
    nsa::next_token_loss(model_->forward(tokens_BS_), tokens_BS_).backward();
    watch.write();
    return written<Recompute>();
  }
  nsa::AttentionSeams& seams(int layer) { return model_->attention(layer)->seams(); }

  nsa::Routes routes_;
  nsa::NsaLm model_{nullptr};
  torch::Tensor tokens_BS_;
  std::unique_ptr<nsa::ActivationCheckpoint> checkpoint_;
};

TEST_F(RecomputeTest, AHealthyLayerIsTheSameAgain) {
  checkpoint({0, 2});
  const auto rows = run();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].layer, 0);
  EXPECT_EQ(rows[1].layer, 2);
  for (const Recompute& row : rows) {
    EXPECT_EQ(row.step, 7);
    EXPECT_EQ(row.micro, 2);
    EXPECT_EQ(row.dtype_forward, "Float");
    EXPECT_EQ(row.dtype_recompute, "Float");
    EXPECT_EQ(row.blocks_forward, row.blocks_recompute);
    EXPECT_NE(row.blocks_forward, "");
    EXPECT_EQ(row.rows, 2 * 40);
    EXPECT_EQ(row.rows_differing, 0);
    EXPECT_TRUE(row.queries_equal);
    EXPECT_TRUE(row.output_equal);
  }
}

TEST_F(RecomputeTest, OtherBlocksAreCountedWithTheirQueries) {
  checkpoint({1});
  seams(1).select = [inner = seams(1).select](const nsa::SeamContext& context,
                                              const torch::Tensor& p_grp_BGSN) {
    auto blocks_BGSn = inner(context, p_grp_BGSN).clone();
    if (nsa::is_recomputing()) blocks_BGSn[0][1].slice(0, 30, 33).fill_(0);
    return blocks_BGSn;
  };
  const auto rows = run();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].rows_differing, 3);
  EXPECT_EQ(rows[0].queries, (std::vector<int>{30, 31, 32}));
  EXPECT_TRUE(rows[0].queries_equal);
  EXPECT_FALSE(rows[0].output_equal);
}

TEST_F(RecomputeTest, AnotherBlocksWeightsAreSeenInTheLayerThatIsComputedAgain) {
  checkpoint({0});
  auto& seam = checkpoint_->seam(0);
  seam.backward = [inner = seam.backward, this](
                      nsa::Block&, const torch::Tensor& x_BSE, const torch::Tensor& dy_BSE) {
    return inner(model_->block(2), x_BSE, dy_BSE);
  };
  const auto rows = run();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].layer, 0);
  EXPECT_EQ(rows[0].dtype_recompute, "Float");
  EXPECT_FALSE(rows[0].queries_equal);
  EXPECT_FALSE(rows[0].output_equal);
}

TEST_F(RecomputeTest, ALayerIsRecordedFromItsOwnRecomputationAlone) {
  checkpoint({0, 1, 2});
  Progress progress;
  SeamWatch watch(channel_, progress);
  watch.install(model_);
  LayerRecorder recorder(model_, watch, progress, true);
  const std::string root = std::filesystem::temp_directory_path().string();
  const std::string unique = "recorded_" + std::to_string(getpid());
  const auto gradient_at_layer_2 = [&](const std::string& name) {
    watch.begin(1);
    recorder.begin(1, 0);
    nsa::next_token_loss(model_->forward(tokens_BS_), tokens_BS_).backward();
    recorder.write({channel_, progress, root, "."}, {}, unique + name);
    const std::string path = root + "/" + unique + name + "_";
    std::vector<std::byte> kept;
    {
      const nsa::SafetensorsFile file(path + "2.safetensors");
      const auto bytes = file.at("dy").bytes;
      kept.assign(bytes.begin(), bytes.end());
    }
    for (int layer = 0; layer < 3; ++layer) {
      std::filesystem::remove(path + std::to_string(layer) + ".safetensors");
    }
    return kept;
  };
  const auto right = gradient_at_layer_2("right");
  auto& seam = checkpoint_->seam(0);
  seam.backward = [inner = seam.backward, this](
                      nsa::Block&, const torch::Tensor& x_BSE, const torch::Tensor& dy_BSE) {
    return inner(model_->block(2), x_BSE, dy_BSE);
  };
  EXPECT_TRUE(gradient_at_layer_2("wrong") == right);
}

TEST_F(RecomputeTest, NestedParametersAreReachableFromTheLoss) {
  checkpoint({1}, "nested");
  const auto loss = nsa::next_token_loss(model_->forward(tokens_BS_), tokens_BS_);
  nsa::NamedParameters parameters;
  for (const auto& item : model_->named_parameters()) {
    parameters.emplace_back(item.key(), item.value());
  }
  for (const bool reached : reachable_from(loss, parameters)) EXPECT_TRUE(reached);
}

TEST_F(RecomputeTest, AnOutputThatIsWrittenToIsTold) {
  Progress progress;
  SeamWatch watch(channel_, progress);
  torch::Tensor held;
  seams(1).compress = [inner = seams(1).compress, &held](const nsa::SeamContext& context,
                                                         const torch::Tensor& raw_BGSD,
                                                         nsa::Pooled what,
                                                         const nsa::PhiWeights& weights) {
    auto pooled_BGCD = inner(context, raw_BGSD, what, weights);
    if (what == nsa::Pooled::key) held = pooled_BGCD;
    return pooled_BGCD;
  };
  watch.install(model_);
  watch.begin(3);
  const auto logits_BSV = model_->forward(tokens_BS_);
  watch.check_outputs();
  EXPECT_TRUE(written<InPlace>().empty());

  watch.begin(4);
  const auto again_BSV = model_->forward(tokens_BS_);
  {
    const torch::NoGradGuard no_graph;
    held.mul_(2.0);
  }
  watch.check_outputs();
  const auto rows = written<InPlace>();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].step, 4);
  EXPECT_EQ(rows[0].layer, 1);
  EXPECT_EQ(rows[0].seam, "compress");
  EXPECT_GT(rows[0].version_found, rows[0].version_made);
}

}  // namespace
}  // namespace harness
