// Laws of what may run at the same time, over drawn machines and cases.
#include "harness/run/cases_at_once.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using harness::Admission;
using harness::Capacity;
using harness::Needs;
using harness::Place;

struct Running {
  Needs needs;
  Place place;
};

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  Capacity capacity() {
    Capacity capacity{number(1, 16), number(1, 64) * 1.0, {}};
    for (int card = number(0, 4); card > 0; --card) {
      capacity.gpu_memory_gib.push_back(number(1, 80));
    }
    return capacity;
  }
  Needs needs(const Capacity& capacity) {
    Needs needs;
    needs.alone = number(0, 5) == 0;
    needs.cores = number(0, capacity.cores);
    needs.memory_gib = number(0, static_cast<int>(capacity.memory_gib));
    needs.gpus = number(0, static_cast<int>(capacity.gpu_memory_gib.size()));
    if (needs.gpus == 0) return needs;
    const auto& cards = capacity.gpu_memory_gib;
    const double least = *std::min_element(cards.begin(), cards.end());
    needs.gpu_memory_gib = number(1, static_cast<int>(least));
    return needs;
  }
  int number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

 private:
  std::mt19937 random_;
};

void expect_within(const Capacity& all, const std::vector<Running>& running) {
  const bool alone = std::any_of(
      running.begin(), running.end(), [](const Running& one) { return one.needs.alone; });
  EXPECT_LE(running.size(), alone ? 1U : running.size());
  int cores = 0;
  double memory = 0.0;
  std::vector<double> cards(all.gpu_memory_gib.size(), 0.0);
  std::vector<int> cases(cards.size(), 0);
  for (const Running& one : running) {
    cores += one.needs.cores;
    memory += one.needs.memory_gib;
    EXPECT_THAT(one.place.gpus, testing::SizeIs(static_cast<std::size_t>(one.needs.gpus)));
    EXPECT_TRUE(std::is_sorted(one.place.gpus.begin(), one.place.gpus.end()));
    for (const int card : one.place.gpus) {
      cards.at(static_cast<std::size_t>(card)) += one.needs.gpu_memory_gib;
      ++cases.at(static_cast<std::size_t>(card));
    }
  }
  EXPECT_LE(cores, all.cores);
  EXPECT_LE(memory, all.memory_gib);
  for (std::size_t card = 0; card < cards.size(); ++card) {
    EXPECT_LE(cards[card], all.gpu_memory_gib[card]);
    EXPECT_LE(cases[card], harness::kMostOnACard);
  }
}

TEST(Admission, NeverGivesMoreThanThereIs) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const Capacity all = draw.capacity();
    Admission admission(all);
    std::vector<Running> running;
    std::size_t most = 0;
    for (int turn = 0; turn < 60; ++turn) {
      const Needs needs = draw.needs(all);
      const auto place = admission.admit(needs);
      EXPECT_TRUE(place || !running.empty()) << "where nothing runs, everything is admitted";
      if (place) running.push_back({needs, *place});
      expect_within(all, running);
      most = std::max(most, running.size());
      if (running.empty() || draw.number(0, 1) == 0) continue;
      const auto ended = running.begin() + draw.number(0, static_cast<int>(running.size()) - 1);
      admission.release(ended->needs, ended->place);
      running.erase(ended);
    }
    EXPECT_GE(most, 1U);
  }
}

Needs small() {
  return {1, 1.0, 0, 0.0, false, 0.0};
}

TEST(Admission, WhatFitsRunsTogether) {
  Admission admission({4, 8.0, {}});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(admission.admit(small())) << i;
  EXPECT_FALSE(admission.admit(small())) << "no core is left";
  admission.release(small(), {});
  EXPECT_TRUE(admission.admit(small()));
}

TEST(Admission, MemoryBindsToo) {
  Admission admission({4, 8.0, {}});
  const Needs large{1, 5.0, 0, 0.0, false, 0.0};
  EXPECT_TRUE(admission.admit(large));
  EXPECT_FALSE(admission.admit(large));
  EXPECT_TRUE(admission.admit(small()));
}

TEST(Admission, CardsAreFilledEvenly) {
  Admission admission({8, 64.0, {80.0, 80.0}});
  const Needs one_card{1, 1.0, 1, 30.0, false, 0.0};
  std::vector<int> given;
  for (int i = 0; i < 4; ++i) given.push_back(admission.admit(one_card).value().gpus.at(0));
  EXPECT_THAT(given, testing::ElementsAre(0, 1, 0, 1));
  EXPECT_FALSE(admission.admit(one_card));
  const Needs both_cards{1, 1.0, 2, 20.0, false, 0.0};
  EXPECT_THAT(admission.admit(both_cards).value().gpus, testing::ElementsAre(0, 1));
}

TEST(Admission, ACardIsNotSharedByMoreCasesThanItServes) {
  Admission admission({64, 512.0, {140.0, 140.0}});
  const Needs tiny{1, 1.0, 1, 1.0, false, 0.0};
  std::vector<Place> given;
  for (int i = 0; i < 2 * harness::kMostOnACard; ++i)
    given.push_back(admission.admit(tiny).value());
  EXPECT_FALSE(admission.admit(tiny)) << "cores, memory and memory of the cards are left";
  EXPECT_TRUE(admission.admit(small())) << "it needs no card";
  admission.release(tiny, given.front());
  EXPECT_EQ(admission.admit(tiny).value().gpus, given.front().gpus);
}

TEST(Admission, WhoIsAloneIsAlone) {
  Admission admission({8, 64.0, {80.0, 80.0}});
  const Needs alone{0, 0.0, 1, 0.0, true, 0.0};
  EXPECT_TRUE(admission.admit(small()));
  EXPECT_FALSE(admission.admit(alone));
  admission.release(small(), {});
  const auto place = admission.admit(alone);
  EXPECT_THAT(place.value().gpus, testing::ElementsAre(0)) << "the cards that its ranks run on";
  EXPECT_FALSE(admission.admit(small()));
  admission.release(alone, *place);
  EXPECT_TRUE(admission.admit(small()));
}

TEST(Admission, WhoDoesNotSayWhatItTakesRunsAlone) {
  harness::Scenario scenario;
  EXPECT_TRUE(harness::needs_of(scenario).alone);
  scenario.budget_cores = 2;
  EXPECT_TRUE(harness::needs_of(scenario).alone) << "its memory is not known";
  scenario.requires_memory_gib = 4.0;
  scenario.budget_seconds = 60.0;
  EXPECT_EQ(harness::needs_of(scenario), (Needs{2, 4.0, 0, 0.0, false, 60.0}));
  scenario.parallel.device = nsa::Device::cuda;
  scenario.requires_gpus = 1;
  EXPECT_TRUE(harness::needs_of(scenario).alone) << "its cards' memory is not known";
  scenario.requires_gpu_memory_gib = 8.0;
  EXPECT_EQ(harness::needs_of(scenario), (Needs{2, 4.0, 1, 8.0, false, 60.0}));
}

TEST(Needs, WhatComparesLevelsRunsAlone) {
  harness::Scenario scenario;
  scenario.budget_cores = 1;
  scenario.requires_memory_gib = 1.0;
  EXPECT_FALSE(harness::needs_of(scenario).alone);
  scenario.checks = {"levels_agree"};
  EXPECT_TRUE(harness::needs_of(scenario).alone);
}

}  // namespace
