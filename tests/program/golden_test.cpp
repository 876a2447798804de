// The built program with its real worker: every shipped golden file, and files that PyTorch wrote by the snippet of docs/golden.md.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cli/command.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"

namespace {

namespace fs = std::filesystem;
using harness::cli::CommandResult;
using testing::HasSubstr;

constexpr int kTimeoutMs = 600'000;  // 29 starts of LibTorch on a busy machine

nlohmann::json golden(std::vector<std::string> files) {
  std::vector<std::string> argv = {fakes::programs() + "/nsa-harness", "golden", "--json"};
  argv.insert(argv.end(), files.begin(), files.end());
  const CommandResult result = harness::cli::run_command(argv, kTimeoutMs);
  EXPECT_TRUE(result.started && !result.timed_out);
  return nlohmann::json::parse(result.out, nullptr, false);
}

double worst(const nlohmann::json& file, const char* side) {
  double most = 0.0;
  for (const auto& stage : file.at("stages"))
    most = std::max(most, stage.at(side).at("error").get<double>());
  return most;
}

TEST(GoldenProgram, EveryShippedFileAgreesWithOracleAndModel) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(fakes::tree() + "/tests/golden")) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  const nlohmann::json all = golden(files);
  ASSERT_TRUE(all.is_object()) << "no object printed: are program and worker of one build?";
  EXPECT_EQ(all.at("exit"), 0);
  ASSERT_EQ(all.at("files").size(), 29U);
  double oracle = 0.0;
  double model = 0.0;
  for (const auto& file : all.at("files")) {
    EXPECT_EQ(file.at("agrees"), true) << file.dump(1);
    EXPECT_EQ(file.at("trouble"), "");
    oracle = std::max(oracle, worst(file, "oracle"));
    model = std::max(model, worst(file, "model"));
  }
  std::cout << "largest relative error against the oracle " << oracle << ", against the model "
            << model << "\n";
}

// ---- the snippet ---------------------------------------------------------------------------------------------------------

std::string snippet() {
  std::ifstream file(fakes::tree() + "/docs/golden.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::string fence = "```python\n";
  const std::size_t begin = all.find(fence) + fence.size();
  return all.substr(begin, all.find("```", begin) - begin);
}

// A Python that has torch: of the toolchain that the launcher made. "" if there is none.
std::string python() {
  const char* home = std::getenv("HOME");
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const fs::path folder = cache != nullptr && *cache != '\0'
                              ? fs::path(cache)
                              : fs::path(home != nullptr ? home : "") / ".cache";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "nsa-harness", error)) {
    const std::string path = entry.path() / "bin/python";
    if (entry.path().filename().string().starts_with("toolchain-") &&
        harness::cli::run_command({path, "-c", "import torch"}, 120'000).ok()) {
      return path;
    }
  }
  return "";
}

// A layer of PyTorch with three stages of its own; `o_win` sees one key too many where argv says so.
constexpr const char* kLayer = R"(
import sys
torch.manual_seed(3)
config = {"dim": 12, "n_heads": 4, "n_kv_groups": 2, "d_k": 8, "d_v": 6, "l": 4, "d": 2, "l_sel": 8, "n_sel": 4, "w": 5}
B, S, G, h, l, d, w = 2, 23, 2, 2, 4, 2, 5 + int(sys.argv[3])
dtype = getattr(torch, sys.argv[2])
shapes = {"W_Q": (32, 12), "out": (12, 24), "gate.fc1": (4, 8), "gate.fc2": (3, 4)}
for branch in ("cmp", "sel", "win"):
    shapes |= {"W_K_" + branch: (16, 12), "W_V_" + branch: (12, 12)}
weights = {name + ".weight": torch.randn(shape).to(dtype) for name, shape in shapes.items()}
weights |= {"gate.fc1.bias": torch.randn(4).to(dtype), "gate.fc2.bias": torch.randn(3).to(dtype)}
x = torch.randn(B, S, 12).to(dtype)

def heads(name, count):
    return torch.nn.functional.linear(x, weights[name + ".weight"]).view(B, S, count, -1).transpose(1, 2)

def rope(z):
    angle = torch.arange(S)[:, None] * 10000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    a, b = z[..., 0::2], z[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

q = rope(heads("W_Q", 4))
k_cmp = torch.stack([rope(heads("W_K_cmp", 2))[:, :, i : i + l].mean(2) for i in range(0, S - l + 1, d)], 2)
k, v = (z.repeat_interleave(h, 1) for z in (rope(heads("W_K_win", 2)), heads("W_V_win", 2)))
ago = torch.arange(S)[:, None] - torch.arange(S)
scores = (q @ k.transpose(-1, -2) / 8**0.5).masked_fill((ago < 0) | (ago >= w), -torch.inf)
o_win = scores.softmax(-1) @ v
tensors = {"x": x, **weights, "q": q.view(B, G, h, S, 8), "k_cmp": k_cmp, "o_win": o_win.view(B, G, h, S, 6)}
write_golden(sys.argv[1], "attention", config, tensors)
)";

TEST(GoldenProgram, AFileThatPyTorchWroteByTheSnippet) {
  const std::string text = snippet();
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 20);
  const std::string interpreter = python();
  if (interpreter.empty()) GTEST_SKIP() << "no Python with torch in the launcher's toolchain";
  const fakes::TempFolder folder;
  const std::string script = folder.write("write.py", text + kLayer);
  const auto write = [&](const std::string& name,
                         const std::string& dtype,
                         const std::string& more) {
    EXPECT_TRUE(
        harness::cli::run_command({interpreter, script, folder / name, dtype, more}, 300'000).ok());
    return folder / name;
  };
  const nlohmann::json all = golden(
      {write("f64", "float64", "0"), write("f32", "float32", "0"), write("wrong", "float32", "1")});
  ASSERT_TRUE(all.is_object()) << "no object printed: are program and worker of one build?";
  EXPECT_EQ(all.at("exit"), 1);
  const auto& files = all.at("files");
  EXPECT_EQ(files.at(0).at("dtype"), "F64");
  EXPECT_EQ(files.at(0).at("agrees"), true) << files.at(0).dump(1);
  EXPECT_EQ(files.at(1).at("dtype"), "F32");
  EXPECT_EQ(files.at(1).at("agrees"), true) << files.at(1).dump(1);
  EXPECT_EQ(files.at(2).at("sentence"), "first stage that differs: o_win; q and k_cmp are right");
  EXPECT_THAT(files.at(2).at("reason").get<std::string>(), HasSubstr("a query sees "));
}

}  // namespace
