// Damaged files: each is read, or refused with one bounded line that names it, and nothing else happens.
#include <gtest/gtest.h>

#include "harness/cli/golden/oracle.h"
#include "nsa/base/error.h"
#include "tests/cli/golden_support.h"
#include "tests/fakes/mutate.h"

namespace {

using namespace harness::cli::golden;

// Two tokens of the smallest layer there is, so that most of the file is header.
std::string tiny_file() {
  fakes::EditableFile file;
  file.metadata = {
      {"level", "attention"},
      {"config",
       R"({"dim":1,"n_heads":1,"n_kv_groups":1,"d_k":2,"d_v":1,"l":1,"d":1,"l_sel":1,"n_sel":3,"w":1})"}};
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    file.tensors[name] = {nsa::DType::f64, shape, {}};
    file.set(name, std::vector<double>(static_cast<std::size_t>(count), 0.5));
  };
  for (const char* branch : {"cmp", "sel", "win"}) {
    add(std::string("w.W_K_") + branch + ".weight", {2, 1});
    add(std::string("W_V_") + branch + ".weight", {1, 1});
  }
  add("w.W_Q.weight", {2, 1});
  add("w.out.weight", {1, 1});
  add("w.gate.fc1.weight", {1, 2});
  add("w.gate.fc1.bias", {1});
  add("w.gate.fc2.weight", {3, 1});
  add("w.gate.fc2.bias", {3});
  add("x", {1, 2, 1});
  add("y", {1, 2, 1});
  return file.image();
}

struct Counts {
  int read = 0;
  int refused = 0;
};

// Reads it, and lets the oracle compute some of what was read.
void try_to_read(const std::string& path, Counts& counts) {
  try {
    const Case c = read_case(path);
    constexpr int kEvery = 50;
    if (counts.read % kEvery == 0) (void)oracle_results(c, Extent::judged);
    ++counts.read;
  } catch (const nsa::Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    EXPECT_LT(message.size(), path.size() + 2000) << message.substr(0, 4000);
    ++counts.refused;
  }
}

TEST(GoldenMutations, TwentyThousandDamagedFilesAreReadOrRefused) {
  const fakes::TempFolder folder;
  const std::string whole = tiny_file();
  constexpr std::size_t kHeader = 2200;
  fakes::Mutator damaged(20260101, kHeader);
  const std::string path = folder / "damaged.safetensors";
  Counts counts;
  for (int i = 0; i < 20'000; ++i) {
    std::filesystem::remove(path);  // writing over a file waits for the disk
    folder.write("damaged.safetensors", damaged(whole));
    ASSERT_NO_FATAL_FAILURE(try_to_read(path, counts)) << i;
  }
  EXPECT_EQ(counts.read + counts.refused, 20'000);
  EXPECT_GT(counts.refused, 10'000);
  EXPECT_GT(counts.read, 100) << "damage that nobody can see, in names and numbers";
}

}  // namespace
