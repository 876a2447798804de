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

// Visits sequence and position, and whether the numbers of both tensors are the same at it.
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
    const auto number = static_cast<std::int64_t>(row);
    visit(number / a.shape[2] / a.shape[1], number % a.shape[2], same);
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

TEST_P(Trials, APerturbationChangesOneSequenceFromAPositionOnAndNothingElse) {
  const Scenario scenario = scenario_of(GetParam());
  const auto rows = write_trials(scenario, folder("a"));
  const bool compressed = GetParam() == "attend_cmp" || GetParam() == "score";
  std::set<std::pair<std::string, std::string>> changed;  // sequence, first position
  for (const Artefact& row : rows) {
    const SafetensorsFile other((folder_ / "a") + "/" + row.path);
    if (!other.metadata().contains("perturbed_of")) continue;
    const std::size_t of = std::stoul(other.metadata().at("perturbed_of"));
    const SafetensorsFile plain((folder_ / "a") + "/" + rows.at(of).path);
    const std::int64_t first = std::stoll(other.metadata().at("first"));
    const std::int64_t sequence = std::stoll(other.metadata().at("sequence"));
    changed.insert({other.metadata().at("sequence"), first == 0 ? "all" : "some"});
    for (const char* name : {"q", "k", "v", "scores", "gates"}) {
      if (!plain.contains(name)) continue;
      for_each_row(plain.at(name), other.at(name), [&](std::int64_t b, std::int64_t at, bool same) {
        const bool of_keys = std::string(name) == "k" || std::string(name) == "v";
        const std::int64_t last =
            compressed && of_keys ? at * scenario.model.d + scenario.model.l - 1 : at;
        EXPECT_EQ(same, b != sequence || last < first) << name << " at " << b << ", " << at;
      });
    }
    if (!other.contains("do") || other.metadata().contains(harness::kJudgedRows)) continue;
    const std::vector<double> d_o = nsa::to_doubles(other.at("do"));
    const std::vector<std::int64_t> shape = other.at("do").shape;
    for (std::size_t i = 0; i < d_o.size(); ++i) {
      const auto vector = static_cast<std::int64_t>(i) / shape[3];
      const bool late = vector % shape[2] >= first && vector / shape[2] / shape[1] == sequence;
      EXPECT_EQ(d_o[i] == 0.0, late) << i;
    }
  }
  const std::set<std::pair<std::string, std::string>> wanted = {
      {"0", "all"}, {"1", "all"}, {"1", "some"}, {"0", "some"}};
  EXPECT_EQ(changed, wanted);
}

TEST_P(Trials, OnlyJudgedRowsGetAGradient) {
  Scenario scenario = scenario_of(GetParam());
  scenario.kernel.gradients = !scenario.kernel.chooses();
  scenario.model.d_v = 256;  // rows are dear
  scenario.model.w = 100;
  scenario.model.l_sel = 16;
  scenario.model.n_sel = 8;
  int drawn = 0;
  for (const Artefact& row : write_trials(scenario, folder("a"))) {
    const SafetensorsFile file((folder_ / "a") + "/" + row.path);
    const auto said = file.metadata().find(harness::kJudgedRows);
    if (said == file.metadata().end()) continue;
    ++drawn;
    const std::string rows = " " + said->second + " ";
    const nsa::TensorView& view = file.at("do");
    const std::vector<double> d_o = nsa::to_doubles(view);
    std::set<std::int64_t> with;
    for (std::size_t i = 0; i < d_o.size(); ++i) {
      if (d_o[i] == 0.0) continue;
      with.insert(static_cast<std::int64_t>(i) / view.shape[3] % view.shape[2]);
    }
    for (const std::int64_t at : with) {
      EXPECT_NE(rows.find(" " + std::to_string(at) + " "), std::string::npos) << at;
    }
    const bool whole = !file.metadata().contains("first");
    for (const std::int64_t edge : {std::int64_t{63}, std::int64_t{64}, view.shape[2] - 1}) {
      if (edge >= view.shape[2] || !whole) continue;
      EXPECT_TRUE(with.contains(edge)) << edge << " of " << view.shape[2];
    }
  }
  EXPECT_EQ(drawn > 0, !scenario.kernel.chooses());
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

TEST_P(Trials, HaveLengthsAtBothSidesOfTilesAndOfTheUsersOwn) {
  Scenario scenario = scenario_of(GetParam());
  scenario.kernel.tile = {96};
  const auto lengths_of = [](const Scenario& one) {
    std::set<std::int64_t> lengths;
    for (const harness::KernelTrial& trial : kernel_trials(one)) lengths.insert(trial.length);
    return lengths;
  };
  const std::set<std::int64_t> lengths = lengths_of(scenario);
  for (const std::int64_t edge : {64, 96, 128, 192, 256}) {
    for (std::int64_t length = edge - 1; length <= edge + 1; ++length) {
      EXPECT_TRUE(lengths.contains(length)) << length;
    }
  }
  EXPECT_LT(*lengths.rbegin(), 2000);
  scenario.kernel.thorough = true;
  const std::set<std::int64_t> thorough = lengths_of(scenario);
  for (const std::int64_t length : {1023, 1025, 4161}) EXPECT_TRUE(thorough.contains(length));
}

// A plain kernel holds all scores at once.
TEST_P(Trials, OfManyHeadsAreShortEnoughForAPlainKernel) {
  Scenario scenario = scenario_of(GetParam());
  scenario.model.n_heads = 256;
  scenario.kernel.thorough = true;
  for (const harness::KernelTrial& trial : kernel_trials(scenario)) {
    EXPECT_LE(256 * trial.length * trial.length / (GetParam() == "select" ? 512 : 1),
              (std::int64_t{1} << 27) * 16)
        << trial.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Levels,
    Trials,
    testing::Values("attend_sel", "attend_win", "attend_cmp", "score", "select", "attention"));

TEST(TrialScores, HaveManyCandidatesForAList) {
  const Scenario scenario = scenario_of("select");
  std::int64_t most = 0;
  for (const harness::KernelTrial& trial : kernel_trials(scenario)) {
    most = std::max(most, trial.length / scenario.model.l_sel);
  }
  EXPECT_GT(most, 16 * scenario.model.n_sel);
}

TEST(TrialScores, LieWithinAnOctaveAndWithinUnitsOfEachOther) {
  for (const nsa::Precision precision :
       {nsa::Precision::fp64, nsa::Precision::fp32, nsa::Precision::bf16, nsa::Precision::fp16}) {
    const Scenario scenario = scenario_of("select", precision);
    const double unit = harness::unit_above_one(harness::dtype_of(precision));
    const fakes::TempFolder folder;
    int trials = 0;
    for (const Artefact& row : write_trials(scenario, folder.path())) {
      const SafetensorsFile file(folder.path() + "/" + row.path);
      const std::string& name = file.metadata().at("trial");
      if (name != "octave" && name != "units") continue;
      ++trials;
      const std::vector<double> scores = nsa::to_doubles(file.at("scores"));
      std::set<double> unlike;
      for (const double score : scores) {
        if (score == 0.0) continue;  // of a block that begins after the query
        EXPECT_GE(score, 1.0);
        EXPECT_LT(score, 2.0);
        EXPECT_LE(score, name == "units" ? 1.0 + 100.0 * unit : 2.0);
        unlike.insert(score);
      }
      EXPECT_GE(unlike.size(), 100U) << name << " in " << nsa::name_of(precision);
    }
    EXPECT_EQ(trials, 2);
  }
}

TEST(TrialValues, AreAsLargeAsTheTypeHolds) {
  for (const auto& [precision, least, most] :
       std::vector<std::tuple<nsa::Precision, double, double>>{
           {nsa::Precision::fp16, 0x1p15, 65504.0},
           {nsa::Precision::bf16, 0x1p100, 0x1p127},
           {nsa::Precision::fp32, 0x1p100, 0x1p127},
           {nsa::Precision::fp64, 0x1p900, 0x1p1022}}) {
    const Scenario scenario = scenario_of("attend_win", precision);
    const fakes::TempFolder folder;
    for (const Artefact& row : write_trials(scenario, folder.path())) {
      const SafetensorsFile file(folder.path() + "/" + row.path);
      if (file.metadata().at("trial") != "just_held") continue;
      for (const double value : nsa::to_doubles(file.at("v"))) {
        EXPECT_GE(std::abs(value), least);
        EXPECT_LE(std::abs(value), most);
      }
      const std::vector<double> d_o = nsa::to_doubles(file.at("do"));
      const double largest = std::abs(*std::max_element(
          d_o.begin(), d_o.end(), [](double a, double b) { return std::abs(a) < std::abs(b); }));
      EXPECT_GT(largest, 0.0);
      EXPECT_LT(largest * least, 0x1p10) << "products that float16 holds";
    }
  }
}

TEST(TrialWidths, AreThoseThatTheUserNames) {
  Scenario scenario = scenario_of("attend_win");
  scenario.kernel.widths = {"12x10"};
  const fakes::TempFolder folder;
  int trials = 0;
  for (const Artefact& row : write_trials(scenario, folder.path())) {
    const SafetensorsFile file(folder.path() + "/" + row.path);
    const bool other = file.metadata().contains(harness::kWidths);
    trials += other ? 1 : 0;
    EXPECT_EQ(file.at("k").shape[3], other ? 12 : scenario.model.d_k);
    EXPECT_EQ(file.at("v").shape[3], other ? 10 : scenario.model.d_v);
    EXPECT_EQ(file.at("do").shape[3], file.at("v").shape[3]);
  }
  EXPECT_EQ(trials, 1);
}

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
                0x1p-8 * std::abs(values.back()) + 0x1p-14);
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
