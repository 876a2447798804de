// What a foreign kernel is called with: drawn once, the same everywhere, held exactly by its type.
#include "harness/foreign/trials.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/foreign/draw.h"
#include "nsa/base/hash.h"
#include "nsa/base/safetensors.h"
#include "tests/fakes/temp_folder.h"

namespace {

using harness::Artefact;
using harness::Scenario;
using nsa::SafetensorsFile;

Scenario scenario_of(const std::string& level, nsa::Precision precision = nsa::Precision::fp32) {
  Scenario scenario;
  scenario.kind = harness::kKernelKind;
  scenario.kernel.level = level;
  scenario.training.precision = precision;
  nsa::ModelConfig& m = scenario.model;
  m.n_heads = 4;
  m.n_kv_groups = 2;
  m.d_k = 6;
  m.d_v = 4;
  m.l = 8;
  m.d = m.l_sel = 4;
  m.n_sel = 4;
  m.w = 7;
  return scenario;
}

// Visits position, numbers of both tensors at it.
template <typename Visit>
void for_each_row(const nsa::TensorView& a, const nsa::TensorView& b, Visit visit) {
  const std::vector<double> x = nsa::to_doubles(a);
  const std::vector<double> y = nsa::to_doubles(b);
  const auto width = static_cast<std::size_t>(a.shape[3]);
  for (std::size_t row = 0; row * width < x.size(); ++row) {
    const auto begin = static_cast<std::ptrdiff_t>(row * width);
    const bool same = std::equal(x.begin() + begin,
                                 x.begin() + begin + static_cast<std::ptrdiff_t>(width),
                                 y.begin() + begin);
    visit(static_cast<std::int64_t>(row) % a.shape[2], same);
  }
}

class Trials : public testing::TestWithParam<std::string> {
 protected:
  std::string folder(const std::string& name) {
    std::filesystem::create_directory(folder_ / name);
    return folder_ / name;
  }
  SafetensorsFile file(const std::vector<Artefact>& rows, const std::string& name) {
    for (const Artefact& row : rows) {
      SafetensorsFile file((folder_ / "a") + "/" + row.path);
      if (file.metadata().at("trial") == name) return file;
    }
    throw std::runtime_error("no trial " + name);
  }
  fakes::TempFolder folder_;
};

TEST_P(Trials, AreTheSameForASeedAndOthersForAnother) {
  Scenario scenario = scenario_of(GetParam());
  const std::vector<Artefact> once = write_trials(scenario, folder("a"));
  const std::vector<Artefact> again = write_trials(scenario, folder("b"));
  scenario.seed = 1;
  const std::vector<Artefact> other = write_trials(scenario, folder("c"));
  ASSERT_EQ(once.size(), again.size());
  std::set<std::string> hashes;
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].hash, again[i].hash);
    EXPECT_NE(once[i].hash, other[i].hash);
    EXPECT_EQ(once[i].hash, nsa::hash_file((folder_ / "a") + "/" + once[i].path));
    EXPECT_EQ(once[i].layer, static_cast<int>(i));
    EXPECT_TRUE(hashes.insert(once[i].hash).second) << "two trials are one: " << once[i].path;
  }
}

TEST_P(Trials, AnotherFutureChangesEveryKeyAfterThePositionAndNoneBeforeIt) {
  const Scenario scenario = scenario_of(GetParam());
  const auto rows = write_trials(scenario, folder("a"));
  const SafetensorsFile plain = file(rows, "normal");
  const SafetensorsFile other = file(rows, "other_future");
  const std::int64_t first = std::stoll(other.metadata().at("first"));
  const bool compressed = GetParam() == "attend_cmp" || GetParam() == "score";
  int before = 0;
  int after = 0;
  for (const char* name : {"q", "k", "v", "scores", "gates"}) {
    if (!plain.contains(name)) continue;
    for_each_row(plain.at(name), other.at(name), [&](std::int64_t row, bool same) {
      const bool of_keys = std::string(name) == "k" || std::string(name) == "v";
      const std::int64_t last =
          compressed && of_keys ? row * scenario.model.d + scenario.model.l - 1 : row;
      EXPECT_EQ(same, last < first) << name << " at " << row;
      ++(same ? before : after);
    });
  }
  EXPECT_GT(before, 0);
  EXPECT_GT(after, 0);
  if (!other.contains("do")) return;
  const std::vector<double> d_o = nsa::to_doubles(other.at("do"));
  const auto width = static_cast<std::size_t>(scenario.model.d_v);
  for (std::size_t i = 0; i < d_o.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i / width) % other.at("do").shape[2];
    EXPECT_EQ(d_o[i] == 0.0, row >= first) << i;
  }
}

TEST_P(Trials, ASequenceAloneIsTheLastOfTheBatch) {
  const auto rows = write_trials(scenario_of(GetParam()), folder("a"));
  const SafetensorsFile batch = file(rows, "normal");
  const SafetensorsFile alone = file(rows, "alone");
  for (const auto& [name, view] : alone.tensors()) {
    ASSERT_EQ(view.shape[0], 1);
    const std::span<const std::byte> all = batch.at(name).bytes;
    ASSERT_EQ(2 * view.bytes.size(), all.size());
    EXPECT_TRUE(std::equal(view.bytes.begin(),
                           view.bytes.end(),
                           all.begin() + static_cast<std::ptrdiff_t>(view.bytes.size())))
        << name;
  }
}

TEST_P(Trials, HaveALengthAtBothSidesOfTheEdge) {
  const Scenario scenario = scenario_of(GetParam());
  std::set<std::int64_t> lengths;
  for (const harness::KernelTrial& trial : kernel_trials(scenario)) lengths.insert(trial.length);
  const bool of_lists =
      GetParam() == "attend_sel" || GetParam() == "select" || GetParam() == "attention";
  const std::int64_t edge = of_lists                     ? scenario.model.l_sel
                            : GetParam() == "attend_win" ? scenario.model.w
                                                         : scenario.model.l;
  for (const std::int64_t length : {std::int64_t{1}, edge - 1, edge, edge + 1}) {
    EXPECT_TRUE(lengths.contains(length)) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Levels,
    Trials,
    testing::Values("attend_sel", "attend_win", "attend_cmp", "score", "select", "attention"));

TEST(TrialScores, HaveTiesAndAreZeroWhereTheBlockBeginsAfterTheQuery) {
  const Scenario scenario = scenario_of("select");
  const fakes::TempFolder folder;
  std::int64_t ties = 0;
  for (const Artefact& row : write_trials(scenario, folder.path())) {
    const SafetensorsFile file(folder.path() + "/" + row.path);
    const nsa::TensorView& view = file.at("scores");
    const std::vector<double> scores = nsa::to_doubles(view);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::int64_t block = static_cast<std::int64_t>(i) % view.shape[3];
      const std::int64_t t = static_cast<std::int64_t>(i) / view.shape[3] % view.shape[2];
      EXPECT_GE(scores[i], 0.0);
      if (block * scenario.model.l_sel > t) {
        EXPECT_EQ(scores[i], 0.0);
      } else if (block > 1 && scores[i] == scores[i - 1]) {
        ++ties;
      }
    }
  }
  EXPECT_GT(ties, 0);
}

TEST(TrialGates, AreOfAllBranchesOrOfOneAlone) {
  const fakes::TempFolder folder;
  std::set<std::string> alone;
  for (const Artefact& row : write_trials(scenario_of("attention"), folder.path())) {
    const SafetensorsFile file(folder.path() + "/" + row.path);
    const std::vector<double> gates = nsa::to_doubles(file.at("gates"));
    const auto branch = file.metadata().find("gate");
    const std::vector<std::string> branches = {"cmp", "sel", "win"};
    for (std::size_t i = 0; i < gates.size(); ++i) {
      if (branch == file.metadata().end()) {
        EXPECT_GT(gates[i], 0.0);
        EXPECT_LE(gates[i], 3.0);
      } else {
        EXPECT_EQ(gates[i], branch->second == branches[i % 3] ? 1.0 : 0.0);
        alone.insert(branch->second);
      }
    }
  }
  EXPECT_EQ(alone.size(), 3U);
}

TEST(TrialKeys, OfBranchesApartAreUnlike) {
  Scenario scenario = scenario_of("attention");
  scenario.kernel.keys = "separate";
  const fakes::TempFolder folder;
  const auto rows = write_trials(scenario, folder.path());
  const SafetensorsFile file(folder.path() + "/" + rows.at(0).path);
  EXPECT_FALSE(file.contains("k"));
  std::set<std::vector<double>> banks;
  for (const char* name : {"k_cmp", "k_sel", "k_win"}) banks.insert(nsa::to_doubles(file.at(name)));
  EXPECT_EQ(banks.size(), 3U);
}

TEST(TrialBlocks, OfOthersAreOfAnyLengthAndNeedNotHoldTheQuerysOwnBlock) {
  Scenario scenario = scenario_of("attend_sel");
  scenario.kernel.picks = "external";
  scenario.kernel.own_block = false;
  scenario.model.init_blocks = 0;
  const fakes::TempFolder folder;
  const auto n = static_cast<std::size_t>(scenario.model.n_sel);
  std::set<std::size_t> lengths;
  int without_own = 0;
  for (const Artefact& row : write_trials(scenario, folder.path())) {
    const SafetensorsFile file(folder.path() + "/" + row.path);
    const std::vector<std::int64_t> blocks = nsa::to_int64s(file.at("blocks"));
    for (std::size_t list = 0; list * n < blocks.size(); ++list) {
      const std::int64_t* const begin = blocks.data() + list * n;
      const std::int64_t* const end = std::find(begin, begin + n, -1);
      const std::int64_t t = static_cast<std::int64_t>(list) % file.at("blocks").shape[2];
      EXPECT_TRUE(std::is_sorted(begin, end));
      ASSERT_NE(begin, end) << "a query without keys";
      EXPECT_LE(end[-1], t / scenario.model.l_sel);
      without_own += end[-1] < t / scenario.model.l_sel ? 1 : 0;
      if (t / scenario.model.l_sel + 1 >= scenario.model.n_sel) {
        lengths.insert(static_cast<std::size_t>(end - begin));
      }
    }
  }
  EXPECT_EQ(lengths.size(), n) << "every length";
  EXPECT_GT(without_own, 0);
}

TEST(TrialBlocks, AreAscendingListsOfPastBlocksWithTheForcedOnes) {
  const Scenario scenario = scenario_of("attend_sel");
  const fakes::TempFolder folder;
  int full = 0;
  int slack = 0;
  for (const Artefact& row : write_trials(scenario, folder.path())) {
    const SafetensorsFile file(folder.path() + "/" + row.path);
    const nsa::TensorView& view = file.at("blocks");
    const std::vector<std::int64_t> blocks = nsa::to_int64s(view);
    const auto n = static_cast<std::size_t>(scenario.model.n_sel);
    for (std::size_t list = 0; list * n < blocks.size(); ++list) {
      const auto t = static_cast<std::int64_t>(list) % view.shape[2];
      const std::int64_t current = t / scenario.model.l_sel;
      std::set<std::int64_t> chosen;
      for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t block = blocks[list * n + i];
        if (block < 0) {
          EXPECT_EQ(static_cast<std::int64_t>(i), current + 1) << "slack only where blocks lack";
          ++slack;
          break;
        }
        EXPECT_TRUE(chosen.empty() || block > *chosen.rbegin());
        EXPECT_LE(block, current);
        chosen.insert(block);
      }
      full += chosen.size() == n ? 1 : 0;
      for (const std::int64_t forced :
           {std::int64_t{0}, current, std::max<std::int64_t>(0, current - 1)}) {
        EXPECT_TRUE(chosen.contains(forced)) << forced << " at " << t;
      }
    }
  }
  EXPECT_GT(full, 0);
  EXPECT_GT(slack, 0);
}

class HeldBy : public testing::TestWithParam<nsa::Precision> {};

TEST_P(HeldBy, WhatIsDrawnReadsBackAsItWasDrawn) {
  const nsa::DType dtype = harness::dtype_of(GetParam());
  const harness::Draws draws(5);
  std::vector<double> values;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    values.push_back(
        harness::held_by(dtype, std::ldexp(draws.normal(i), static_cast<int>(i % 13) - 6)));
    EXPECT_NEAR(values.back(),
                std::ldexp(draws.normal(i), static_cast<int>(i % 13) - 6),
                0x1p-8 * std::abs(values.back()) + 0x1p-10);
  }
  const std::vector<std::byte> bytes = harness::encoded(dtype, values);
  EXPECT_EQ(nsa::to_doubles({dtype, {2000}, bytes, "test"}), values);
}

INSTANTIATE_TEST_SUITE_P(Types,
                         HeldBy,
                         testing::Values(nsa::Precision::fp64,
                                         nsa::Precision::fp32,
                                         nsa::Precision::bf16,
                                         nsa::Precision::fp16));

TEST(Draws, AreNormalAndUnlike) {
  const harness::Draws draws(1);
  double sum = 0.0;
  double squares = 0.0;
  constexpr int kCount = 20'000;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    sum += draws.normal(i);
    squares += draws.normal(i) * draws.normal(i);
  }
  EXPECT_NEAR(sum / kCount, 0.0, 5.0 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1.0, 5.0 * std::sqrt(2.0 / kCount));
  EXPECT_NE(draws.bits(3), harness::Draws(2).bits(3));
}

}  // namespace
