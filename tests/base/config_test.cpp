#include "nsa/base/config.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/where.h"

namespace {

using nsa::ModelConfig;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kModels = fakes::tree() + "/configs/models";

ModelConfig model(const std::string& yaml) {
  return nsa::read_model(nsa::parse_yaml(yaml, "s.yaml"), kModels);
}
std::string model_error(const std::string& yaml) {
  return error_of([&] { (void)model(yaml); });
}
std::string training_error(const std::string& yaml) {
  return error_of([&] { (void)nsa::read_training(nsa::parse_yaml(yaml, "s.yaml"), "/base"); });
}
std::string parallel_error(const std::string& yaml) {
  return error_of([&] { (void)nsa::read_parallel(nsa::parse_yaml(yaml, "s.yaml"), 12); });
}

// Added up by hand, tensor by tensor: name, elements.
TEST(Config, ParametersOfM7c125m) {
  const std::vector<std::pair<const char*, std::int64_t>> block = {
      {"norm1", 768},
      {"W_Q", 768 * 768},
      {"W_K_sel", 128 * 768},
      {"W_V_sel", 128 * 768},
      {"W_K_win", 128 * 768},
      {"W_V_win", 128 * 768},
      {"W_K_cmp", 128 * 768},
      {"W_V_cmp", 128 * 768},
      {"out", 768 * 768},
      {"gate.fc1.weight", 32 * 64},
      {"gate.fc1.bias", 32},
      {"gate.fc2.weight", 3 * 32},
      {"gate.fc2.bias", 3},
      {"norm2", 768},
      {"mlp.fc1", 3072 * 768},
      {"mlp.fc2", 768 * 3072},
  };
  std::int64_t of_block = 0;
  for (const auto& [name, elements] : block) of_block += elements;
  const std::int64_t total = 256 * 768 + 12 * of_block + 768 + 256 * 768;
  EXPECT_EQ(1 + 12 * block.size() + 2, 195U);
  EXPECT_EQ(total, 78'295'332);
  EXPECT_EQ(model("{use: m7c_125m}").parameter_count(), total);
}

// By hand for toy: dim 128, 8 heads, 2 groups, widths 16, l 16; what differs from the default variant.
TEST(Config, ParametersOfTheVariants) {
  const std::int64_t toy = model("{use: toy}").parameter_count();
  const std::int64_t softmax = 8 * 16 + 8 + 3 * 8 + 3;
  const ModelConfig sigmoid = model("{use: toy, gate: head_sigmoid}");
  EXPECT_EQ(sigmoid.gate, nsa::Gate::head_sigmoid);
  EXPECT_EQ(sigmoid.parameter_count(), toy - softmax + 3 * 8 * 128);
  const ModelConfig conv = model("{use: toy, phi: conv, d_v: 24}");
  EXPECT_EQ(conv.phi, nsa::Phi::conv);
  EXPECT_EQ(conv.parameter_count(),
            model("{use: toy, d_v: 24}").parameter_count() + 16 * (16 + 24));
  const ModelConfig mlp = model("{use: toy, phi: mlp}");
  EXPECT_EQ(mlp.parameter_count(), toy + 2 * (16 * 16 + 32 * 256 + 16 * 32));
  const ModelConfig tied = model("{use: toy, tied_head: true}");
  EXPECT_EQ(tied.parameter_count(), toy - 256 * 128);
  const ModelConfig overlap = model("{use: toy, eq9: overlap}");
  EXPECT_EQ(overlap.eq9, nsa::Eq9::overlap);
  EXPECT_EQ(overlap.parameter_count(), toy);
}

TEST(Config, TheFourModels) {
  const ModelConfig paper = model("{use: paper}");
  EXPECT_EQ(paper.name, "paper");
  EXPECT_EQ(paper.d_k, 192);
  EXPECT_EQ(paper.d_v, 128);
  const ModelConfig small = model("{use: small}");
  EXPECT_EQ(small.dim, 256);
  EXPECT_EQ(small.heads_per_group(), 4);
  EXPECT_EQ(small.gate_width(), 16);
  const ModelConfig toy = model("{use: toy}");
  EXPECT_EQ(toy.n_layers, 1);
  EXPECT_EQ(toy.compressed_len(15), 0);
  EXPECT_EQ(toy.compressed_len(16), 1);
  EXPECT_EQ(toy.compressed_len(24), 2);
  EXPECT_EQ(toy.block_count(33), 2);
}

TEST(Config, OverridesAreLaidOverTheFile) {
  const ModelConfig changed = model("{use: m7c_125m, n_sel: 4, w: 128}");
  EXPECT_EQ(changed.n_sel, 4);
  EXPECT_EQ(changed.w, 128);
  EXPECT_EQ(changed.dim, 768);
  EXPECT_EQ(changed.name, "m7c_125m");
}

TEST(Config, NamesTheNearestModel) {
  EXPECT_EQ(
      model_error("\nuse: m7c_125\n"),
      "s.yaml:2: model.use: found \"m7c_125\", wanted one of m7c_125m, paper, small, toy; did you "
      "mean \"m7c_125m\"?");
  EXPECT_THAT(model_error("{use: ../models/toy}"), HasSubstr("wanted one of"));
  EXPECT_THAT(
      error_of([] { (void)nsa::read_model(nsa::parse_yaml("{use: toy}", "s"), "/nowhere"); }),
      HasSubstr("/nowhere"));
}

struct Law {
  const char* yaml;
  const char* message;
};

TEST(Config, EveryLawIsToldAtTheLineOfItsValue) {
  const std::vector<Law> laws = {
      {"use: toy\nl: 20\n", "s.yaml:2: model.l: found 20, wanted a multiple of d = 8"},
      {"use: toy\nl_sel: 20\n", "s.yaml:2: model.l_sel: found 20, wanted a multiple of d = 8"},
      {"use: toy\nn_heads: 7\n",
       "s.yaml:2: model.n_heads: found 7, wanted a multiple of n_kv_groups = 2"},
      {"use: toy\nn_sel: 2\n",
       "s.yaml:2: model.n_sel: found 2, wanted at least init_blocks + local_blocks"},
      {"use: toy\nd_k: 15\n", "s.yaml:2: model.d_k: found 15, wanted an even number"},
      {"use: toy\nd: 0\n", "s.yaml:2: model.d: found 0"},
      {"use: toy\nw: -1\n", "s.yaml:2: model.w: found -1"},
      {"use: toy\nw: 9223372036854775807\n", "s.yaml:2: model.w"},
      {"use: toy\nlocal_blocks: 0\n", "s.yaml:2: model.local_blocks"},
      {"use: toy\nrope_scale: 0\n", "s.yaml:2: model.rope_scale: found 0"},
      {"use: toy\nrope_base: .nan\n", "s.yaml:2: model.rope_base: found NaN"},
      {"use: toy\ngate_temp: .inf\n", "s.yaml:2: model.gate_temp: found Infinity"},
      {"use: toy\ngate: head_softmax\n",
       "s.yaml:2: model.gate: found \"head_softmax\", wanted one of group_softmax, head_sigmoid"},
      {"use: toy\neq9: share\n", "s.yaml:2: model.eq9: found \"share\""},
      {"use: toy\nphi: max\n", "s.yaml:2: model.phi: found \"max\", wanted one of avg, conv, mlp"},
      {"use: toy\nn_layer: 2\n", "did you mean \"n_layers\"?"},
      {"use: toy\ndim: wide\n", "s.yaml:2: model.dim: found \"wide\", wanted a whole number"},
      {"[1]", "s.yaml:1: model: found a list, wanted a map"},
      {"{}", "model.dim: found 0"},
      {"{use: toy, dim: 65536, n_layers: 1024, mlp_ratio: 64}", "parameters, wanted at most"},
  };
  for (const Law& law : laws)
    EXPECT_THAT(model_error(law.yaml), HasSubstr(law.message)) << law.yaml;
}

TEST(Config, TrainingLaws) {
  const std::vector<Law> laws = {
      {"seq_len: 64\nsteps: 0\n", "s.yaml:2: training.steps: found 0"},
      {"seq_len: -1\n", "s.yaml:1: training.seq_len: found -1"},
      {"steps: 1\n", "training.seq_len: found 0"},
      {"seq_len: 64\nbatch_size: -1\n", "s.yaml:2: training.batch_size"},
      {"seq_len: 64\naccumulate: 0\n", "s.yaml:2: training.accumulate: found 0"},
      {"seq_len: 64\naccumulate: 0\n", "s.yaml:2: training.accumulate: found 0"},
      {"seq_len: 64\nprecision: fp8\n",
       "s.yaml:2: training.precision: found \"fp8\", wanted one of fp64, fp32, bf16, fp16, "
       "bf16_pure, "
       "fp16_pure"},
      {"seq_len: 64\ndata: {source: noise}\n", "wanted one of text, uniform, long_range"},
      {"seq_len: 64\ndata: {source: long_range}\n",
       "training.data.distance: found 0, wanted at least 1"},
      {"seq_len: 64\ndata: {distance: 3}\n", "wanted it with source long_range only"},
      {"seq_len: 64\ndata: {source: uniform, sharpness: 1.5}\n",
       "training.data.sharpness: found 1.5, wanted 0..1"},
      {"seq_len: 64\ndata: {txt: [a]}\n", "did you mean \"text\"?"},
      {"seq_len: 64\ndata: {text: a}\n",
       "s.yaml:2: training.data.text: found \"a\", wanted a list"},
      {"seq_len: 64\ndata: {text: ['']}\n", "empty path"},
      {"seq_len: 64\noptimizer: {lr: -1}\n", "s.yaml:2: training.optimizer.lr: found -1"},
      {"seq_len: 64\noptimizer: {beta1: 2}\n", "training.optimizer.beta1"},
      {"seq_len: 64\noptimizer: {warmup: 5, total: 4}\n", "training.optimizer.warmup: found 5"},
  };
  for (const Law& law : laws)
    EXPECT_THAT(training_error(law.yaml), HasSubstr(law.message)) << law.yaml;
}

TEST(Config, EveryPrecisionByItsName) {
  using nsa::Precision;
  for (const Precision precision : {Precision::fp64,
                                    Precision::fp32,
                                    Precision::bf16,
                                    Precision::fp16,
                                    Precision::bf16_pure,
                                    Precision::fp16_pure}) {
    const std::string yaml =
        std::string("{seq_len: 8, precision: ") + nsa::name_of(precision) + "}";
    EXPECT_EQ(nsa::read_training(nsa::parse_yaml(yaml, "s"), "/").precision, precision) << yaml;
  }
}

TEST(Config, ParallelLaws) {
  const std::vector<Law> laws = {
      {"ranks: 0\n", "s.yaml:1: parallel.ranks: found 0, wanted 1..256"},
      {"backend: nccl\n", "s.yaml:1: parallel.backend: found nccl with device cpu"},
      {"backend: mpi\n", "wanted one of auto, gloo, nccl"},
      {"device: tpu\n", "wanted one of cpu, cuda"},
      {"ddp: {static_graph: 3}\n", "s.yaml:1: parallel.ddp.static_graph: found"},
      {"ddp: {compress: fp16}\n", "wanted one of none, bf16"},
      {"ddp: {bucket_mb: 0}\n", "s.yaml:1: parallel.ddp.bucket_mb: found 0"},
      {"checkpoint: {layers: some}\n", "wanted none, all or a list of layers"},
      {"checkpoint: {layers: [3, 12]}\n",
       "s.yaml:1: parallel.checkpoint.layers: found \"12\", wanted 0..11"},
      {"checkpoint: {layers: [4, 1, 4]}\n", "found a layer twice"},
      {"checkpoint: {mode: inside}\n", "wanted one of functional, nested"},
  };
  for (const Law& law : laws)
    EXPECT_THAT(parallel_error(law.yaml), HasSubstr(law.message)) << law.yaml;
}

TEST(Config, CheckpointedLayers) {
  const auto layers = [](const std::string& yaml) {
    return nsa::read_parallel(nsa::parse_yaml("checkpoint: {layers: " + yaml + "}", "s"), 4)
        .checkpoint_layers;
  };
  EXPECT_EQ(layers("none"), (std::vector<int>{}));
  EXPECT_EQ(layers("[]"), (std::vector<int>{}));
  EXPECT_EQ(layers("all"), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(layers("[3, 0]"), (std::vector<int>{0, 3}));
}

TEST(Config, AutoPicksByDevice) {
  nsa::ParallelConfig parallel;
  EXPECT_EQ(parallel.effective_backend(), "gloo");
  parallel.device = nsa::Device::cuda;
  EXPECT_EQ(parallel.effective_backend(), "nccl");
  parallel.backend = "gloo";
  EXPECT_EQ(parallel.effective_backend(), "gloo");
}

TEST(Config, TextPathsAreRelativeToTheFile) {
  const auto training = nsa::read_training(
      nsa::parse_yaml("{seq_len: 8, data: {text: [a.txt, ../b, /c]}}", "s"), "/base/sub");
  EXPECT_EQ(training.data.text, (std::vector<std::string>{"/base/sub/a.txt", "/base/b", "/c"}));
  EXPECT_EQ(training.data.as_written, (std::vector<std::string>{"a.txt", "../b", "/c"}));
}

// A law: whatever validate() lets through can be computed with: no size is zero, no product overflows.
TEST(Config, ValidModelsHaveSaneSizes) {
  std::mt19937_64 random(4);
  const auto draw = [&]() -> std::int64_t {
    const std::int64_t edges[] = {-1,
                                  0,
                                  1,
                                  2,
                                  3,
                                  8,
                                  16,
                                  64,
                                  1000,
                                  65536,
                                  65537,
                                  1 << 24,
                                  std::numeric_limits<std::int64_t>::max()};
    return edges[random() % std::size(edges)];
  };
  int valid = 0;
  const ModelConfig toy = model("{use: toy}");
  for (int i = 0; i < 50'000; ++i) {
    ModelConfig m = toy;
    std::int64_t* const members[] = {&m.dim,
                                     &m.n_layers,
                                     &m.n_heads,
                                     &m.n_kv_groups,
                                     &m.d_k,
                                     &m.d_v,
                                     &m.l,
                                     &m.d,
                                     &m.l_sel,
                                     &m.n_sel,
                                     &m.w,
                                     &m.init_blocks,
                                     &m.local_blocks,
                                     &m.vocab_size,
                                     &m.mlp_ratio,
                                     &m.gate_hidden};
    for (int changes = 0; changes < 2; ++changes) *members[random() % std::size(members)] = draw();
    if (error_of([&] { m.validate({}); }) != "no error") continue;
    ++valid;
    EXPECT_GT(m.parameter_count(), 0);
    EXPECT_EQ(m.heads_per_group() * m.n_kv_groups, m.n_heads);
    EXPECT_EQ(m.l % m.d, 0);
    EXPECT_GE(m.compressed_len(1 << 24), 0);
    EXPECT_GE(m.n_sel, m.init_blocks + m.local_blocks);
  }
  EXPECT_GT(valid, 1000);
}

}  // namespace
