// A snapshot brings back everything: N + M steps equal N steps, a snapshot, another process's state and M steps, bit by bit, in
// every precision; and a file that does not fit changes nothing.
#include "nsa/train/snapshot.h"

#include <filesystem>
#include <fstream>
#include <stdlib.h>

#include <gtest/gtest.h>

#include "nsa/base/error.h"
#include "nsa/train/precision.h"
#include "tests/model/support.h"
#include "tests/model/variants.h"

namespace nsa::testing {
namespace {

using torch::Tensor;

class Folder {
 public:
  Folder() : path_(::mkdtemp(name_)) {}
  ~Folder() { (void)::system(("rm -rf " + path_).c_str()); }  // remove_all crashes beside LibTorch
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return std::filesystem::path(path_) / name;
  }

 private:
  char name_[32] = "/tmp/nsa_snapshot_XXXXXX";
  std::string path_;
};

struct Training {
  explicit Training(Precision precision, int seed = 1) {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    model = NsaLm(small_config(), std::map<std::string, std::string>{}, routes);
    model->to(dtype_of(precision));
    for (const auto& item : model->named_parameters()) named.emplace_back(item.key(), item.value());
    OptimizerConfig config;
    config.lr = 0.01;
    config.warmup = 2;
    config.total = 12;
    std::vector<Tensor> tensors;
    for (const auto& [name, tensor] : named) tensors.push_back(tensor);
    optimizer = std::make_unique<Optimizer>(tensors, config, precision);
  }
  // One step on tokens that the random generator draws.
  void step() {
    for (auto& [name, parameter] : named) parameter.mutable_grad().reset();
    const auto tokens_BS = torch::randint(29, {1, 40}, torch::kLong);
    optimizer->scaled(next_token_loss(model->forward(tokens_BS), tokens_BS)).backward();
    (void)optimizer->step();
  }
  [[nodiscard]] SnapshotParts parts() { return {named, *optimizer, "tokens"}; }
  std::vector<Tensor> values() {
    std::vector<Tensor> found;
    for (const auto& [name, tensor] : named) found.push_back(tensor.detach().clone());
    return found;
  }

  Routes routes;
  NsaLm model{nullptr};
  NamedParameters named;
  std::unique_ptr<Optimizer> optimizer;
};

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    // fp16_pure makes NaNs (an eps of zero): one is as good as another.
    const auto equal = a[i].eq(b[i]).logical_or_(a[i].isnan().logical_and_(b[i].isnan()));
    if (!equal.all().item<bool>()) return false;
  }
  return a.size() == b.size();
}

std::vector<Tensor> uninterrupted(Precision precision) {
  Training training(precision);
  torch::manual_seed(77);
  for (int step = 1; step <= 7; ++step) training.step();
  return training.values();
}

std::vector<Tensor> resumed(Precision precision, const SnapshotSections& sections) {
  const Folder folder;
  {
    Training before(precision);
    torch::manual_seed(77);
    for (int step = 1; step <= 4; ++step) before.step();
    save_snapshot(folder / "a", before.parts(), 4);
  }
  Training after(precision, 2);  // other initial weights
  torch::manual_seed(123);
  EXPECT_EQ(load_snapshot(folder / "a", after.parts(), sections), 4);
  for (int step = 5; step <= 7; ++step) after.step();
  return after.values();
}

TEST(Snapshot, GoesOnBitByBitInEveryPrecision) {
  for (const Precision precision : {Precision::fp64,
                                    Precision::fp32,
                                    Precision::bf16,
                                    Precision::fp16,
                                    Precision::bf16_pure,
                                    Precision::fp16_pure}) {
    EXPECT_TRUE(same(uninterrupted(precision), resumed(precision, {}))) << name_of(precision);
  }
}

// Every section matters: without one the numbers are others.
TEST(Snapshot, WithoutASectionItIsAnotherRun) {
  const std::vector<Tensor> wanted = uninterrupted(Precision::fp32);
  EXPECT_FALSE(same(wanted, resumed(Precision::fp32, {.optimizer = false})));
  EXPECT_FALSE(same(wanted, resumed(Precision::fp32, {.schedule = false})));
  EXPECT_FALSE(same(wanted, resumed(Precision::fp32, {.rng = false})));
  EXPECT_FALSE(
      same(uninterrupted(Precision::bf16), resumed(Precision::bf16, {.optimizer = false})));
}

TEST(Snapshot, WhatDoesNotFitIsRefusedAndChangesNothing) {
  const Folder folder;
  Training narrow(Precision::fp32);
  save_snapshot(folder / "good", narrow.parts(), 3);
  EXPECT_EQ(snapshot_data_identity(folder / "good"), "tokens");

  Training wide(Precision::fp64);
  const auto before = wide.values();
  EXPECT_THROW(load_snapshot(folder / "good", wide.parts()), Error);
  const SnapshotParts other{narrow.named, *narrow.optimizer, "another text"};
  EXPECT_THROW(load_snapshot(folder / "good", other), Error);
  EXPECT_THROW(load_snapshot(folder / "absent", narrow.parts()), Error);

  std::filesystem::copy_file(folder / "good", folder / "short");
  const auto size = std::filesystem::file_size(folder / "short");
  for (const std::uintmax_t cut : {size - 1, size / 2, std::uintmax_t{9}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(folder / "short", cut);
    EXPECT_THROW(load_snapshot(folder / "short", wide.parts()), Error) << cut;
  }
  EXPECT_TRUE(same(before, wide.values()));
}

}  // namespace
}  // namespace nsa::testing
