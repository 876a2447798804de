// The diagnosis against systems whose hidden cause is known: it finds the cause or says that it does not know it, and
// never establishes anything else.
#include "harness/diagnose/diagnosis.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nsa/base/text.h"
#include "tests/diagnose/worlds.h"

namespace fixtures {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;
using Certainty = Diagnosis::Certainty;

// What the failure of a system depends on. Its name is that of the table; "" where taking it away explains nothing.
struct Dependence {
  const char* what;
  bool (*is_there)(const Scenario& scenario);
};

const std::vector<Dependence>& dependences() {
  static const std::vector<Dependence> kAll = {
      {"static_graph", [](const Scenario& s) { return s.parallel.static_graph; }},
      {"find_unused", [](const Scenario& s) { return s.parallel.find_unused; }},
      {"gradient_as_bucket_view",
       [](const Scenario& s) { return s.parallel.gradient_as_bucket_view; }},
      {"the size of buckets", [](const Scenario& s) { return s.parallel.bucket_mb < 1; }},
      {"compression between ranks",
       [](const Scenario& s) { return s.parallel.compress == "bf16"; }},
      {"activation checkpointing",
       [](const Scenario& s) { return !s.parallel.checkpoint_layers.empty(); }},
      {"gradient accumulation", [](const Scenario& s) { return s.training.accumulate > 1; }},
      {"precision bf16",
       [](const Scenario& s) { return s.training.precision == nsa::Precision::bf16; }},
      {"rope_scale", [](const Scenario& s) { return s.model.rope_scale != 1; }},
      {"the form of phi", [](const Scenario& s) { return s.model.phi == nsa::Phi::conv; }},
      {"packed in seam attend_sel",
       [](const Scenario& s) { return s.route.at("attend_sel") == "packed"; }},
      {"sdpa in seam attend_win",
       [](const Scenario& s) { return s.route.at("attend_win") == "sdpa"; }},
      {"layer 2", [](const Scenario& s) { return s.model.n_layers > 2; }},
      {"", [](const Scenario& s) { return s.parallel.ranks > 1; }},
      {"", [](const Scenario& s) { return s.seed == 7; }},
  };
  return kAll;
}

using Conjunction = std::vector<Dependence>;

bool holds(const Conjunction& all, const Scenario& scenario) {
  return std::all_of(
      all.begin(), all.end(), [&](const Dependence& one) { return one.is_there(scenario); });
}

Conjunction drawn(std::mt19937& random, std::size_t most) {
  Conjunction all = dependences();
  std::shuffle(all.begin(), all.end(), random);
  all.resize(random() % (most + 1));
  return all;
}

std::vector<std::string> names_of_causes(const Conjunction& all) {
  std::vector<std::string> names;
  for (const Dependence& one : all) {
    if (*one.what != '\0') names.emplace_back(one.what);
  }
  return names;
}

// Layer 2 shows the failure, wherever it comes from.
const Cause kSymptom = cause_at("NUMERIC.FORWARD", {2});

World failing_where(const Conjunction& all) {
  return [all](const Scenario& scenario) {
    const bool shown = holds(all, scenario) && scenario.model.n_layers > 2;
    return shown ? failed(kSymptom) : passed();
  };
}

TEST(Diagnosis, FindsEveryHiddenCauseAndNoOther) {
  std::mt19937 random(20);
  for (int trial = 0; trial < 40; ++trial) {
    const Conjunction hidden = drawn(random, 3);
    std::vector<std::string> wanted = names_of_causes(hidden);
    // No such failure is seen without the layer that shows it.
    if (std::find(wanted.begin(), wanted.end(), "layer 2") == wanted.end())
      wanted.emplace_back("layer 2");
    const Diagnosis diagnosis = diagnosed(rich_case(), kSymptom, failing_where(hidden));
    EXPECT_THAT(established(diagnosis), UnorderedElementsAreArray(wanted));
    EXPECT_EQ(diagnosis.certainty, Certainty::established);
  }
}

TEST(Diagnosis, ADefectThatEverybodySharesIsNeverEstablished) {
  const Diagnosis diagnosis = diagnosed(rich_case(), cause_at("LOSS.WRONG"), [](const Scenario&) {
    return failed(cause_at("LOSS.WRONG"));
  });
  EXPECT_EQ(diagnosis.certainty, Certainty::supported);
  EXPECT_THAT(established(diagnosis), IsEmpty());
  for (const harness::Question& question : diagnosis.questions) {
    EXPECT_EQ(question.state, harness::Question::State::stays) << question.what;
  }
}

// What every case runs goes where another implementation is put in its place, and only there.
TEST(Diagnosis, AMistakeInAStageIsGoneWithItsCode) {
  Case plain = rich_case();
  for (const char* seam : {"score", "select", "attend_sel"})
    plain.scenario.route[seam] = "reference";
  const World world = [](const Scenario& scenario) {
    const bool by_hand = scenario.route.at("select") == "by_hand";
    return by_hand ? passed() : failed(cause_at("SELECTION.WRONG", {0}));
  };
  const Diagnosis diagnosis = diagnosed(plain, cause_at("SELECTION.WRONG", {0}), world);
  EXPECT_THAT(established(diagnosis), ElementsAre("the code of select"));
  EXPECT_EQ(diagnosis.certainty, Certainty::established);
}

TEST(Diagnosis, AFailureThatOnlyMovesIsNotExplainedByTheLayer) {
  const World world = [](const Scenario& scenario) {
    return failed(cause_at("NUMERIC.FORWARD", {static_cast<int>(scenario.model.n_layers) - 1}));
  };
  const Diagnosis diagnosis = diagnosed(rich_case(), cause_at("NUMERIC.FORWARD", {3}), world);
  EXPECT_EQ(diagnosis.certainty, Certainty::supported);
  EXPECT_THAT(established(diagnosis), IsEmpty());
}

// With that layer on top it fails at the one below: it takes more than the layer.
TEST(Diagnosis, AFailureAtAnotherPlaceDoesNotStandForTheOneThatIsExplained) {
  const World world = [](const Scenario& scenario) {
    if (scenario.model.n_layers < 3) return passed();
    return failed(cause_at("NUMERIC.FORWARD", {scenario.model.n_layers == 3 ? 1 : 2}));
  };
  EXPECT_THAT(established(diagnosed(rich_case(), cause_at("NUMERIC.FORWARD", {2}), world)),
              IsEmpty());
}

TEST(Diagnosis, TwoCausesOfWhichEachSufficesAreNotEstablished) {
  std::mt19937 random(21);
  for (int trial = 0; trial < 20; ++trial) {
    Conjunction two = dependences();
    std::erase_if(two, [](const Dependence& one) { return std::string(one.what) == "layer 2"; });
    std::shuffle(two.begin(), two.end(), random);
    two.resize(2);
    const Diagnosis diagnosis =
        diagnosed(rich_case(), cause_at("LOSS.WRONG"), [&](const Scenario& scenario) {
          const bool any = two[0].is_there(scenario) || two[1].is_there(scenario);
          return any ? failed(cause_at("LOSS.WRONG")) : passed();
        });
    EXPECT_THAT(established(diagnosis), IsEmpty()) << two[0].what << " or " << two[1].what;
    EXPECT_EQ(diagnosis.certainty, Certainty::supported);
  }
}

TEST(Diagnosis, AnotherFailureInItsPlaceEstablishesNothing) {
  const World world = [](const Scenario& scenario) {
    return failed(cause_at(scenario.parallel.static_graph ? "GRAD.SCALE" : "GRAD.MISSING"));
  };
  const Diagnosis diagnosis = diagnosed(rich_case(), cause_at("GRAD.SCALE"), world);
  EXPECT_THAT(established(diagnosis), IsEmpty());
  const auto asked = std::find_if(diagnosis.questions.begin(),
                                  diagnosis.questions.end(),
                                  [](const auto& one) { return one.what == "static_graph"; });
  ASSERT_NE(asked, diagnosis.questions.end());
  EXPECT_EQ(asked->state, harness::Question::State::unclear);
  EXPECT_THAT(asked->says, HasSubstr("in another way"));
  EXPECT_THAT(diagnosis.because,
              testing::Contains("What was seen without these was not counted: static_graph"));
  bool has_reason = false;
  for (const harness::AnswerGroup& group : harness::answers_of(diagnosis)) {
    const std::string whats = nsa::join(group.whats);
    has_reason = has_reason || whats.find(
                                   "static_graph (without it the case fails in another way "
                                   "(FAIL GRAD.MISSING)") != std::string::npos;
  }
  EXPECT_TRUE(has_reason);
}

TEST(Diagnosis, WhatWasNotJudgedIsNoAnswer) {
  const World world = [](const Scenario& scenario) {
    Ran unjudged{"", Outcome::inconclusive, {}, "nothing was exercised", 1.0};
    return scenario.parallel.static_graph ? failed(cause_at("GRAD.SCALE")) : unjudged;
  };
  EXPECT_THAT(established(diagnosed(rich_case(), cause_at("GRAD.SCALE"), world)), IsEmpty());
}

TEST(Diagnosis, ACaseThatDoesNotFailAgainIsUnknown) {
  const Diagnosis diagnosis =
      diagnosed(rich_case(), cause_at("GRAD.SCALE"), [](const Scenario&) { return passed(); });
  EXPECT_EQ(diagnosis.certainty, Certainty::unknown);
  EXPECT_THAT(diagnosis.because, ElementsAre(HasSubstr("not deterministic")));
}

// A failure by chance can pass for the answer of an experiment. Of 400 such systems, each with a chance of its own, no
// more than one in fifty may have anything established.
TEST(Diagnosis, AFailureByChanceIsHardlyEverExplained) {
  constexpr int kSystems = 400;
  std::mt19937 random(22);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  int wrong = 0;
  for (int system = 0; system < kSystems; ++system) {
    const double chance = unit(random);
    const Diagnosis diagnosis =
        diagnosed(rich_case(), cause_at("GRAD.SCALE"), [&](const Scenario&) {
          return unit(random) < chance ? failed(cause_at("GRAD.SCALE")) : passed();
        });
    if (!established(diagnosis).empty()) ++wrong;
  }
  EXPECT_LE(wrong * 50, kSystems) << wrong << " of " << kSystems;
}

// A minute a run: a smaller case that fails alike at the same place is asked in its stead.
TEST(Diagnosis, ALongCaseIsAskedInASmallerOne) {
  Case large = rich_case();
  large.scenario.model.dim = 768;
  large.scenario.model.n_layers = 12;
  const auto world = [](bool needs_width) {
    return [needs_width](const Scenario& scenario) {
      const bool wide = scenario.model.dim > 128;
      Ran ran = scenario.parallel.static_graph && (wide || !needs_width)
                    ? failed(cause_at("GRAD.MISSING", {5}))
                    : passed();
      ran.seconds = wide ? 60.0 : 5.0;
      return ran;
    };
  };
  const Diagnosis smaller = diagnosed(large, cause_at("GRAD.MISSING", {5}), world(false));
  EXPECT_EQ(smaller.smaller,
            "model.dim 768 -> 128, model.mlp_ratio 4 -> 2, model.n_layers 12 -> 7");
  EXPECT_THAT(established(smaller), testing::Contains("static_graph"));
  const Diagnosis whole = diagnosed(large, cause_at("GRAD.MISSING", {5}), world(true));
  EXPECT_EQ(whole.smaller, "");
  EXPECT_THAT(established(whole), testing::Contains("static_graph"));
}

TEST(Diagnosis, OneRankLessIsNoCauseByItself) {
  const Diagnosis diagnosis =
      diagnosed(rich_case(), cause_at("GRAD.SCALE"), [](const Scenario& scenario) {
        return scenario.parallel.ranks > 1 ? failed(cause_at("GRAD.SCALE")) : passed();
      });
  EXPECT_EQ(diagnosis.certainty, Certainty::supported);
  EXPECT_THAT(established(diagnosis), IsEmpty());
  EXPECT_EQ(diagnosis.questions.front().what, "the other ranks");
  EXPECT_EQ(diagnosis.questions.front().state, harness::Question::State::needed);
}

TEST(Diagnosis, IsTheSameWhenItIsReadAgainAfterEveryRun) {
  const World world = failing_where({dependences()[0]});
  std::vector<Ran> ran = {world(rich_case().scenario)};
  std::vector<std::string> asked;
  while (true) {
    const Diagnosis diagnosis = harness::diagnose(rich_case(), {kSymptom}, ran);
    if (!diagnosis.next) break;
    asked.push_back(diagnosis.next->point.back().second);
    Ran next = world(diagnosis.next->scenario);
    next.name = asked.back();
    ran.push_back(std::move(next));
  }
  EXPECT_EQ(std::set<std::string>(asked.begin(), asked.end()).size(), asked.size())
      << "no experiment is asked for twice";
  EXPECT_THAT(asked, testing::Contains("without static_graph again"));
}

// The plain implementation takes more memory and may: what is too much with another one is within that.
TEST(Memory, ABackEndInWhosePlaceMoreMemoryIsExpectedIsNoCause) {
  for (const char* code : {"MEM.BUDGET", "NUMERIC.FORWARD"}) {
    const Cause symptom = cause_at(code);
    const Diagnosis diagnosis = diagnosed(rich_case(), symptom, [&](const Scenario& scenario) {
      return scenario.route.at("attend_sel") == "packed" ? failed(symptom) : passed();
    });
    const bool is_memory = code == std::string("MEM.BUDGET");
    EXPECT_EQ(established(diagnosis),
              is_memory ? std::vector<std::string>()
                        : std::vector<std::string>{"packed in seam attend_sel"});
  }
}

// ---- how long the next experiment takes ------------------------------------------------------------------------------------

// Without the slow back end the case takes two seconds, with it half a minute.
TEST(Seconds, ACaseThatWasRunTakesAsLongAgain) {
  const Cause slow = cause_at("SLOW.HOST");
  const auto is_slow = [](const Scenario& s) { return s.route.at("attend_sel") == "packed"; };
  std::vector<std::pair<std::string, double>> told;
  std::vector<Ran> ran = {failed(slow)};
  ran.front().seconds = 30;
  while (true) {
    const Diagnosis diagnosis = harness::diagnose(rich_case(), {slow}, ran);
    if (!diagnosis.next) break;
    const std::string name = diagnosis.next->point.back().second;
    told.emplace_back(name, diagnosis.next_seconds);
    ran.push_back(is_slow(diagnosis.next->scenario) ? failed(slow) : passed());
    ran.back().name = name;
    ran.back().seconds = is_slow(diagnosis.next->scenario) ? 30 : 2;
    if (name == "without packed in seam attend_sel once more") break;
  }
  EXPECT_THAT(told,
              ElementsAre(std::pair("again", 30.0),
                          std::pair("without packed in seam attend_sel", 30.0),
                          std::pair("with packed in seam attend_sel", 30.0),
                          std::pair("without packed in seam attend_sel again", 2.0),
                          std::pair("without packed in seam attend_sel once more", 2.0)));
}

TEST(Order, OfWhatIsSlowTheBackEndsAreAskedBeforeTheLimitOfTime) {
  const Cause slow = cause_at("SLOW.HOST");
  const Diagnosis diagnosis =
      diagnosed(rich_case(), slow, [&](const Scenario& /*scenario*/) { return failed(slow); });
  std::vector<std::string> asked;
  for (const harness::Question& question : diagnosis.questions) asked.push_back(question.what);
  EXPECT_THAT(
      std::vector(asked.begin(), asked.begin() + 3),
      ElementsAre("packed in seam attend_sel", "sdpa in seam attend_win", "the limit of time"));
}

}  // namespace
// With one sequence of two, the other one's numbers are gone: it was a tie in them that failed, and not their number.
TEST(Diagnosis, WhatGoesWithTheNumbersDrawnIsNotExplainedByTheirSize) {
  Case two = rich_case();
  two.scenario.training.batch_size = 2;
  const Cause symptom = cause_at("DETERMINISM.SELECTION", {2});
  const auto by_draw = [&](const Scenario& scenario) {
    const bool right_by_chance = scenario.training.batch_size == 1 && scenario.seed == 7;
    return right_by_chance ? passed() : failed(symptom);
  };
  EXPECT_THAT(established(diagnosed(two, symptom, by_draw)),
              testing::Not(testing::Contains("several sequences in a batch")));
  const auto by_number = [&](const Scenario& scenario) {
    return scenario.training.batch_size == 1 ? passed() : failed(symptom);
  };
  EXPECT_THAT(established(diagnosed(two, symptom, by_number)),
              testing::Contains("several sequences in a batch"));
}

}  // namespace fixtures
