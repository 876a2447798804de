// Digests of ranks that differ: the tensors are read from the files in which the ranks keep their last steps.
#include "harness/run/processes/step_digests.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace harness {
namespace {

constexpr std::uint64_t kNan = 2;

struct Tensor {
  std::uint64_t fingerprint = 0;
  std::uint64_t flags = 0;
};

// A file of the last four steps (step_digests.h): one gradient, two parameters, no frozen one, no buffer.
class Ranks : public testing::Test {
 protected:
  Ranks() {
    std::string path = std::filesystem::temp_directory_path() / "digests_XXXXXX";
    folder_ = mkdtemp(path.data());
    digests_ = std::make_unique<StepDigests>(folder_);
  }
  ~Ranks() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void write(int rank, std::uint64_t step, const std::vector<Tensor>& tensors) {
    std::string& text = files_[rank];
    if (text.empty()) text = head();
    std::vector<std::uint64_t> slot = {step, step};
    for (const Tensor& tensor : tensors) {
      slot.insert(slot.end(), {tensor.fingerprint, tensor.flags, 0});
    }
    std::memcpy(text.data() + kFirst + step % kSlots * kSlotBytes, slot.data(), kSlotBytes);
    const std::string path = folder_ + "/rank_" + std::to_string(rank);
    std::filesystem::create_directories(path);
    std::ofstream(path + "/steps.ring", std::ios::binary) << text;
  }

  std::vector<std::pair<int, TensorDigest>> hear(int rank, const StepDigest& digest) {
    return digests_->heard(Event::of(rank, 1, digest));
  }

  static StepDigest digest(std::int64_t step, const std::string& parameters) {
    StepDigest row;
    row.step = row.reductions = step;
    row.parameters = parameters;
    return row;
  }

  std::string folder_;
  std::unique_ptr<StepDigests> digests_;

 private:
  static constexpr std::uint64_t kFirst = 512;
  static constexpr std::uint64_t kSlots = 4;
  static constexpr std::uint64_t kSlotBytes = 8 * (2 + 3 * 3);

  static std::string head() {
    const std::string json =
        R"({"classes": [{"name": "gradients", "tensors": ["a"]}, {"name": "parameters", "tensors": ["a", "b"]},)"
        R"( {"name": "frozen", "tensors": []}, {"name": "buffers", "tensors": []}]})";
    std::string text(kFirst + kSlots * kSlotBytes, '\0');
    const std::uint64_t numbers[] = {kFirst, kSlotBytes, kSlots, json.size()};
    std::memcpy(text.data(), "NSARING1", 8);
    std::memcpy(text.data() + 8, numbers, sizeof numbers);
    std::memcpy(text.data() + 40, json.data(), json.size());
    return text;
  }

  std::map<int, std::string> files_;
};

TEST_F(Ranks, ThatAgreeAreNotReadAny) {
  write(0, 1, {{1}, {2}, {3}});
  write(1, 1, {{1}, {2}, {3}});
  EXPECT_TRUE(hear(0, digest(1, "p")).empty());
  EXPECT_TRUE(hear(1, digest(1, "p")).empty());
}

TEST_F(Ranks, ThatDifferAreReadTensorByTensor) {
  write(0, 7, {{1}, {2}, {3}});
  write(1, 7, {{1}, {2}, {4}});
  EXPECT_TRUE(hear(0, digest(7, "p")).empty());
  const auto rows = hear(1, digest(7, "q"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].first, 0);
  EXPECT_EQ(rows[1].first, 1);
  EXPECT_EQ(rows[1].second.of, "parameters");
  EXPECT_EQ(rows[1].second.tensor, "b");
  EXPECT_EQ(rows[1].second.fingerprint, "0000000000000004");
  EXPECT_EQ(rows[1].second.odd, 1);
  EXPECT_EQ(rows[1].second.all, 2);
  write(0, 8, {{1}, {2}, {3}});
  write(1, 8, {{1}, {2}, {4}});
  hear(0, digest(8, "p"));
  EXPECT_TRUE(hear(1, digest(8, "q")).empty()) << "once for each class";
}

TEST_F(Ranks, AreComparedByTheirReductions) {
  write(0, 7, {{1}, {2}, {3}});
  write(1, 6, {{1}, {5}, {3}});
  hear(0, digest(7, "p"));
  StepDigest behind = digest(6, "q");
  behind.reductions = 7;
  const auto rows = hear(1, behind);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].second.tensor, "a");
  EXPECT_EQ(rows[1].second.step, 6);
}

TEST_F(Ranks, WithOtherPiecesAreNotCompared) {
  write(0, 7, {{1}, {2}, {3}});
  write(1, 7, {{1}, {2}, {4}});
  StepDigest one = digest(7, "p");
  StepDigest other = digest(7, "q");
  one.piece = "0";
  other.piece = "1";
  hear(0, one);
  EXPECT_TRUE(hear(1, other).empty());
}

TEST_F(Ranks, WithANumberThatIsNotFiniteAreReadAlone) {
  write(0, 3, {{1}, {2, kNan}, {3}});
  StepDigest row = digest(3, "p");
  row.not_finite = "p";
  const auto rows = hear(0, row);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].second.tensor, "a");
  EXPECT_EQ(rows[0].second.state, "nan");
  EXPECT_TRUE(hear(0, row).empty());
}

TEST_F(Ranks, WhoseFileNoLongerHoldsTheStepGiveNothing) {
  write(0, 3, {{1}, {2}, {3}});
  write(1, 3, {{1}, {2}, {4}});
  write(1, 7, {{1}, {2}, {4}});  // in the place of step 3
  hear(0, digest(3, "p"));
  EXPECT_TRUE(hear(1, digest(3, "q")).empty());
}

TEST_F(Ranks, WhoseFileIsCutOrAbsentGiveNothing) {
  write(0, 3, {{1}, {2}, {3}});
  write(1, 3, {{1}, {2}, {4}});
  std::filesystem::resize_file(folder_ + "/rank_1/steps.ring", 100);
  hear(0, digest(3, "p"));
  EXPECT_TRUE(hear(1, digest(3, "q")).empty());
  std::filesystem::remove(folder_ + "/rank_0/steps.ring");
  hear(0, digest(4, "p"));
  EXPECT_TRUE(hear(1, digest(4, "q")).empty());
}

}  // namespace
}  // namespace harness
