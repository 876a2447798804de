// The bisection against pure predicates: what it finds, how many trials it takes, and that it never asks twice.
#include "harness/scenario/bisect.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "harness/strategies/list.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"

namespace {

using harness::BisectProgress;
using harness::BisectTrial;
using harness::Case;
using harness::Outcome;
using State = BisectProgress::State;
using Layers = std::vector<std::string>;

Layers layers(int count) {
  Layers names;
  for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

bool holds(const Layers& all, const Layers& some) {
  return std::all_of(some.begin(), some.end(), [&](const std::string& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  });
}

struct Path {
  BisectProgress answer;
  std::vector<BisectTrial> trials;
};

Path search(const Layers& candidates, const std::function<Outcome(const Layers&)>& outcome_of) {
  Path path;
  std::set<Layers> asked;
  while (true) {
    path.answer = harness::bisect_progress(candidates, path.trials);
    if (path.answer.state != State::searching) return path;
    EXPECT_TRUE(asked.insert(path.answer.next).second) << "asked twice";
    if (path.trials.size() > 200) return path;
    path.trials.push_back({path.answer.next, outcome_of(path.answer.next)});
  }
}

Path search_for(const Layers& candidates, const Layers& culprits) {
  return search(candidates, [&](const Layers& subset) {
    return holds(subset, culprits) ? Outcome::fail : Outcome::pass;
  });
}

void expect_found(const Layers& candidates, const Layers& culprits, std::size_t most) {
  const Path path = search_for(candidates, culprits);
  EXPECT_EQ(path.answer.state, State::minimal);
  EXPECT_EQ(path.answer.minimal, culprits);
  EXPECT_LE(path.trials.size(), most) << harness::subset_text(culprits);
  const bool tried = std::any_of(path.trials.begin(), path.trials.end(), [&](const auto& trial) {
    return trial.subset == culprits && trial.outcome == Outcome::fail;
  });
  EXPECT_TRUE(tried) << "the answer itself was seen to fail";
}

TEST(Bisect, FindsEverySingleLayerAndEveryPairOfTwelve) {
  const Layers all = layers(12);
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect_found(all, {all[i]}, 10);
    for (std::size_t j = i + 1; j < all.size(); ++j) expect_found(all, {all[i], all[j]}, 16);
  }
}

TEST(Bisect, FindsAnySetOfAnyCandidates) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const Layers all = layers(1 + static_cast<int>(random() % 30));
    Layers culprits;
    for (const std::string& one : all) {
      if (random() % all.size() < 3) culprits.push_back(one);
    }
    if (culprits.empty()) culprits.push_back(all.back());
    expect_found(all, culprits, 2 + 2 * culprits.size() * (6 + 1));
  }
}

// Where several sets fail, the one that is found fails, and nothing smaller in it does.
TEST(Bisect, OfSeveralSetsItFindsAMinimalOne) {
  std::mt19937 random(4);
  for (int i = 0; i < 300; ++i) {
    const Layers all = layers(12);
    std::vector<Layers> sets;
    for (int k = 0; k < 3; ++k) {
      Layers shuffled = all;
      std::shuffle(shuffled.begin(), shuffled.end(), random);
      shuffled.resize(3);
      sets.push_back(shuffled);
    }
    const auto fails = [&](const Layers& subset) {
      return std::any_of(
          sets.begin(), sets.end(), [&](const Layers& set) { return holds(subset, set); });
    };
    const Path path = search(
        all, [&](const Layers& subset) { return fails(subset) ? Outcome::crash : Outcome::pass; });
    ASSERT_EQ(path.answer.state, State::minimal);
    EXPECT_TRUE(fails(path.answer.minimal));
    for (std::size_t k = 0; k < path.answer.minimal.size(); ++k) {
      Layers smaller = path.answer.minimal;
      smaller.erase(smaller.begin() + static_cast<std::ptrdiff_t>(k));
      EXPECT_FALSE(fails(smaller));
    }
  }
}

TEST(Bisect, BeginsWithAllAndNone) {
  const Layers all = layers(4);
  const Path nothing = search(all, [](const Layers&) { return Outcome::pass; });
  EXPECT_EQ(nothing.answer.state, State::nothing_breaks);
  ASSERT_EQ(nothing.trials.size(), 1U);
  EXPECT_EQ(nothing.trials[0].subset, all);
  const Path always = search(all, [](const Layers&) { return Outcome::oom; });
  EXPECT_EQ(always.answer.state, State::broken_without_any);
  ASSERT_EQ(always.trials.size(), 2U);
  EXPECT_TRUE(always.trials[1].subset.empty());
}

TEST(Bisect, ATrialThatDecidesNothingEndsIt) {
  for (const Outcome undecided : {Outcome::error, Outcome::inconclusive, Outcome::skip}) {
    int count = 0;
    const Path path = search(layers(6), [&](const Layers& subset) {
      if (++count == 4) return undecided;
      return holds(subset, {"1", "4"}) ? Outcome::fail : Outcome::pass;
    });
    EXPECT_EQ(path.answer.state, State::inconclusive);
    EXPECT_EQ(path.trials.size(), 4U);
    EXPECT_NE(path.answer.conclusion.find(harness::name_of(undecided)), std::string::npos);
    EXPECT_NE(path.answer.conclusion.find(harness::subset_text(path.trials[3].subset)),
              std::string::npos)
        << path.answer.conclusion;
  }
}

TEST(Bisect, WhateverFailsTheAnswerWasSeenToFail) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Layers all = layers(2 + static_cast<int>(seed % 11));
    const Path path = search(all, [&](const Layers& subset) {
      if (subset.size() == all.size()) return Outcome::fail;
      if (subset.empty()) return Outcome::pass;
      const std::size_t hash = std::hash<std::string>()(harness::subset_text(subset));
      return (hash ^ seed) % 3 == 0 ? Outcome::fail : Outcome::pass;  // no law at all
    });
    ASSERT_EQ(path.answer.state, State::minimal);
    const bool tried = std::any_of(path.trials.begin(), path.trials.end(), [&](const auto& trial) {
      return trial.subset == path.answer.minimal && trial.outcome == Outcome::fail;
    });
    EXPECT_TRUE(tried) << harness::subset_text(path.answer.minimal);
  }
}

// ---- cases -----------------------------------------------------------------------------------------------------------------

class StrategyTest : public testing::Test {
 protected:
  std::vector<Case> load(const std::string& lines) {
    folder_.write("corpus.txt", std::string(1000, 'a'));
    return harness::load_cases(
        folder_.write("s.yaml",
                      "version: 1\nscenario: s\nkind: training\nmodel: {use: small}\n"
                      "training: {seq_len: 16, data: {text: [corpus.txt]}}\nchecks: [finite]\n" +
                          lines),
        fakes::scenario_options(fakes::tree()),
        fakes::manifest());
  }
  fakes::TempFolder folder_;
};

TEST_F(StrategyTest, AMatrixRunsEveryPointOnce) {
  const std::vector<Case> cases = load("axes: {model.w: [8, 16]}\n");
  const harness::Strategy& strategy = harness::strategies::strategy_for(cases[1].scenario);
  EXPECT_STREQ(strategy.name, "matrix");
  EXPECT_EQ(strategy.next(cases[1], {}), std::vector<Case>{cases[1]});
  const std::vector<harness::Tried> tried = {{&cases[1], Outcome::error}};
  EXPECT_TRUE(strategy.next(cases[1], tried).empty());
}

TEST_F(StrategyTest, ABisectionTriesCasesWithPartsOfTheLayers) {
  const Case base = load("bisect: {over: parallel.checkpoint.layers}\nseed: 7\n").at(0);
  const harness::Strategy& strategy = harness::strategies::strategy_for(base.scenario);
  EXPECT_STREQ(strategy.name, "bisect");
  std::deque<Case> cases;
  std::vector<harness::Tried> tried;
  std::set<std::string> ids;
  std::vector<std::string> labels;
  while (true) {
    const std::vector<Case> next = strategy.next(base, tried);
    if (next.empty()) break;
    ASSERT_EQ(next.size(), 1U);
    cases.push_back(next[0]);
    const harness::Scenario& scenario = cases.back().scenario;
    const std::vector<int>& checkpointed = scenario.parallel.checkpoint_layers;
    EXPECT_TRUE(ids.insert(cases.back().id).second);
    EXPECT_EQ(scenario.seed, 7);
    EXPECT_EQ(scenario.text, base.scenario.text);
    EXPECT_EQ(scenario.training, base.scenario.training) << "paths of the text included";
    EXPECT_EQ(harness::case_from_json(harness::case_to_json(cases.back()), "c"), cases.back());
    labels.push_back(cases.back().label());
    const bool fails = std::count(checkpointed.begin(), checkpointed.end(), 2) +
                           std::count(checkpointed.begin(), checkpointed.end(), 5) ==
                       2;
    tried.push_back({&cases.back(), fails ? Outcome::fail : Outcome::pass});
  }
  ASSERT_GE(labels.size(), 3U);
  EXPECT_EQ(labels[0], "s[parallel.checkpoint.layers=[0, 1, 2, 3, 4, 5]]");
  EXPECT_EQ(labels[1], "s[parallel.checkpoint.layers=[]]");
  std::vector<BisectTrial> trials;
  for (const auto& one : tried) trials.push_back({harness::subset_of(*one.the_case), one.outcome});
  EXPECT_EQ(harness::bisect_progress(base.scenario.bisect.candidates, trials).minimal,
            (Layers{"2", "5"}));
  EXPECT_TRUE(harness::is_whole_trial(cases[0]));
  EXPECT_FALSE(harness::is_whole_trial(cases[1]));
  EXPECT_TRUE(harness::is_trial(cases[1]));
  EXPECT_FALSE(harness::is_trial(base));
}

TEST_F(StrategyTest, OtherListsAreBisectedToo) {
  const std::string lines =
      "bisect: {over: sweep.seq_len, candidates: [16, 32]}\naxes: {seed: [1, 2]}\n";
  const Case trial = harness::trial_of(load(lines).at(1), {"32"});
  EXPECT_EQ(trial.scenario.sweep.seq_len, std::vector<std::int64_t>{32});
  EXPECT_EQ(trial.label(), "s[seed=2,sweep.seq_len=[32]]");
}

}  // namespace
