// A record whose steps were folded is judged as the whole one: the law of StepFold, over runs with drawn mistakes.
#include "harness/evidence/step_fold.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

#include "harness/checks/list.h"
#include "harness/judge/judge.h"
#include "tests/fakes/long_runs.h"

namespace harness {
namespace {

using Events = std::vector<Event>;
using Random = std::mt19937;

constexpr StepFold::Limits kShort = {8, 64};

std::string said_of(const Events& events) {
  const Judgement judged = judge(fakes::evidence_of(events), all_checks(), {});
  std::string said = name_of(judged.outcome) + std::string(": ") + judged.reason + "\n";
  for (const CheckResult& verdict : judged.verdicts)
    said += verdict.check + " " + name_of(verdict.verdict) + ": " + verdict.reason + "\n";
  for (const Finding& finding : judged.findings) said += nlohmann::json(finding).dump() + "\n";
  return said;
}

std::int64_t drawn(Random& random, std::int64_t from, std::int64_t to) {
  return std::uniform_int_distribution<std::int64_t>(from, to)(random);
}

// Rows of a kind, from a step on, `most` of them.
void change_rows(Events& events,
                 const char* kind,
                 std::int64_t step,
                 std::int64_t most,
                 const std::function<void(nlohmann::json& body)>& change) {
  for (Event& event : events) {
    const bool is_it = event.kind == kind && event.body.value("step", std::int64_t{0}) >= step;
    if (!is_it || most-- <= 0) continue;
    change(event.body);
  }
}

void remove_rows(Events& events, const char* kind, std::int64_t step, std::int64_t most) {
  std::erase_if(events, [&](const Event& event) {
    return event.kind == kind && event.body.value("step", std::int64_t{0}) >= step && most-- > 0;
  });
}

using Mistake = std::function<void(Events&, std::int64_t step, std::int64_t times)>;

Mistake set(const char* kind, const char* key, const nlohmann::json& value) {
  return [=](Events& events, std::int64_t step, std::int64_t times) {
    change_rows(events, kind, step, times, [&](auto& body) { body[key] = value; });
  };
}

Mistake without(const char* kind) {
  return [=](Events& events, std::int64_t step, std::int64_t times) {
    remove_rows(events, kind, step, times);
  };
}

template <typename Row>
Mistake with(const Row& row) {
  return [=](Events& events, std::int64_t step, std::int64_t) {
    for (auto at = events.begin(); at != events.end(); ++at) {
      if (at->body.value("step", std::int64_t{0}) < step) continue;
      Event more = Event::of(at->process, at->t_ms, row);
      if (more.body.contains("step")) more.body["step"] = step;
      events.insert(at, more);
      return;
    }
  };
}

// The rank leaves an optimiser step out and keeps the gradients: its later steps have numbers that are too small.
void skip_a_step(Events& events, std::int64_t step, std::int64_t) {
  std::erase_if(events, [&](const Event& event) {
    const bool ends = event.kind == StepDigest::kKind || event.kind == Sample::kKind;
    const bool optimizes = event.kind == Phase::kKind && event.body["phase"] == "optimizer";
    return event.body.value("step", std::int64_t{0}) == step && (ends || optimizes);
  });
  for (Event& event : events) {
    if (event.body.value("step", std::int64_t{0}) > step)
      event.body["step"] = event.body["step"].get<std::int64_t>() - 1;
  }
}

// It reduces once more than the others, in all steps together.
void reduce_once_more(Events& events, std::int64_t step, std::int64_t) {
  change_rows(events, StepDigest::kKind, step, 1'000'000, [](auto& body) {
    body["reductions"] = body["reductions"].template get<std::int64_t>() + 1;
  });
}

void end_early(Events& events, std::int64_t step, std::int64_t) {
  std::erase_if(
      events, [&](const Event& event) { return event.body.value("step", std::int64_t{0}) > step; });
}

const std::vector<std::pair<const char*, Mistake>>& mistakes() {
  static const std::vector<std::pair<const char*, Mistake>> all = {
      {"none", [](Events&, std::int64_t, std::int64_t) {}},
      {"parameters", set("digest", "parameters", "other")},
      {"gradients", set("digest", "gradients", nlohmann::json::array({"other"}))},
      {"no reduction", set("digest", "gradients", nlohmann::json::array())},
      {"two reductions", set("digest", "gradients", nlohmann::json::array({"a", "b"}))},
      {"frozen", set("digest", "frozen", "other")},
      {"buffers", set("digest", "buffers", "other")},
      {"no buffers", set("digest", "buffers", "")},
      {"own buffers", set("digest", "own_buffers", "other")},
      {"states", set("digest", "states", "other")},
      {"other states", set("digest", "states_of", "others")},
      {"inputs", set("digest", "inputs", "same")},
      {"no inputs", set("digest", "inputs", "")},
      {"not finite", set("digest", "not_finite", "p")},
      {"gradients not finite", set("digest", "not_finite", "g")},
      {"not taken", set("digest", "taken", 0)},
      {"piece", set("digest", "piece", "rank 1")},
      {"reductions", reduce_once_more},
      {"loss", set("sample", "value", "NaN")},
      {"another metric", set("sample", "metric", "other")},
      {"size", set("collective", "count", 11)},
      {"operation", set("collective", "op", "broadcast")},
      {"group", set("collective", "group", "another")},
      {"not in the backward", set("collective", "phase", "forward")},
      {"plan", set("bucket", "elements", 11)},
      {"phase", set("phase", "phase", "optimizer")},
      {"no digest", without("digest")},
      {"no sample", without("sample")},
      {"no collective", without("collective")},
      {"no bucket", without("bucket")},
      {"no phase", without("phase")},
      {"no end", without("collective_done")},
      {"no gradient", without("gradient")},
      {"one more phase", with(Phase{"forward", 1})},
      {"one more sample", with(Sample{"loss", 1, 2.0})},
      {"a gradient more", with(Gradient{})},
      {"an error", with(WorkerError{"E", "what", "forward", 1, {}, {}, 0})},
      {"it sits out", with(Fact{kSatOutFact, "20"})},
      {"it joins", with(Fact{kJoinsFact, ""})},
      {"it is not joined", with(Fact{kNotJoinedFact, ""})},
      {"lines are lost", with(Fact{kLinesLostFact, "3"})},
      {"a step is skipped", skip_a_step},
      {"a step is skipped and made good",
       [](Events& events, std::int64_t step, std::int64_t) {
         set("digest", "reductions", step - 1)(events, step, 1);
       }},
      {"it ends early", end_early},
  };
  return all;
}

fakes::LongRun drawn_run(Random& random) {
  fakes::LongRun run;
  run.ranks = static_cast<int>(drawn(random, 1, 4));
  run.steps = drawn(random, 30, 80);
  run.micro_batches = static_cast<int>(drawn(random, 1, 2));
  run.own_buffers = drawn(random, 0, 3) == 0;
  run.in_pairs = run.ranks == 4 && drawn(random, 0, 1) == 0;
  run.tells_inputs = drawn(random, 0, 3) > 0;
  return run;
}

class StepFolds : public testing::TestWithParam<int> {};

TEST_P(StepFolds, TheWholeRecordAndTheFoldedOneAreJudgedAlike) {
  const auto& [name, mistake] = mistakes()[static_cast<std::size_t>(GetParam())];
  for (unsigned seed = 1; seed <= 3; ++seed) {
    Random random(1'000U * static_cast<unsigned>(GetParam()) + seed);
    const fakes::LongRun run = drawn_run(random);
    const auto step = drawn(random, 1, run.steps);
    const auto times = drawn(random, 0, 2) > 0 ? 1 : drawn(random, 2, 40);
    const bool all = drawn(random, 0, 3) == 0;
    const auto odd = static_cast<int>(drawn(random, 0, run.ranks - 1));
    const Events whole = fakes::events_of(run, [&, spoil = mistake](int rank, Events& events) {
      if (all || rank == odd) spoil(events, step, times);
    });
    const Events some =
        fakes::folded(whole, static_cast<std::size_t>(drawn(random, 1, 2'000)), kShort);
    if (GetParam() == 0) {
      EXPECT_LT(some.size(), whole.size()) << "nothing was folded";
    }
    EXPECT_EQ(said_of(some), said_of(whole))
        << name << ", seed " << seed << ", " << run.ranks << " ranks, step " << step << ", "
        << times << " times" << (all ? ", on all ranks" : "");
  }
}

INSTANTIATE_TEST_SUITE_P(Drawn,
                         StepFolds,
                         testing::Range(0, static_cast<int>(mistakes().size())),
                         [](const auto& drawn_one) {
                           std::string name =
                               mistakes()[static_cast<std::size_t>(drawn_one.param)].first;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

std::int64_t rows_of(const Events& events, const char* kind) {
  return std::count_if(
      events.begin(), events.end(), [&](const Event& event) { return event.kind == kind; });
}

std::set<std::int64_t> steps_kept(const Events& events) {
  std::set<std::int64_t> steps;
  for (const Event& event : events) {
    if (event.kind == StepDigest::kKind) steps.insert(event.body["step"].get<std::int64_t>());
  }
  return steps;
}

TEST(StepFold, TheRecordDoesNotGrowWithTheStepsOfAHealthyRun) {
  fakes::LongRun run;
  run.recorded_every = 1'000'000;
  std::map<std::int64_t, std::int64_t> rows;
  for (const std::int64_t steps : {200, 900}) {
    run.steps = steps;
    const Events some = fakes::folded(fakes::events_of(run), 500, kShort);
    EXPECT_EQ(rows_of(some, Stretch::kKind), 1);
    EXPECT_EQ(steps_kept(some).size(), 3U + 8U) << "recorded ones, the last";
    rows[steps] = static_cast<std::int64_t>(some.size());
  }
  EXPECT_EQ(rows[200], rows[900]);
}

TEST(StepFold, ADepartureAndTheStepBeforeItStay) {
  fakes::LongRun run;
  run.steps = 100;
  run.recorded_every = 1'000'000;
  const Events whole = fakes::events_of(run, [](int rank, Events& events) {
    if (rank == 1) set("digest", "frozen", "other")(events, 40, 1);
  });
  const std::set<std::int64_t> kept = steps_kept(fakes::folded(whole, 500, kShort));
  EXPECT_TRUE(kept.contains(39) && kept.contains(40));
  EXPECT_FALSE(kept.contains(38) || kept.contains(41));
}

TEST(StepFold, AStepInWhichTheControllerLookedStays) {
  fakes::LongRun run;
  run.recorded_every = 1'000'000;
  Events whole = fakes::events_of(run);
  std::int64_t at_ms = 0;
  for (const Event& event : whole) {
    if (event.kind == Collective::kKind && event.body["step"] == 40) at_ms = event.t_ms;
  }
  const auto after = std::find_if(
      whole.begin(), whole.end(), [&](const Event& event) { return event.t_ms > at_ms; });
  whole.insert(after, Event::of(kController, at_ms, Observation{}));
  EXPECT_TRUE(steps_kept(fakes::folded(whole, 500, kShort)).contains(40));
}

TEST(StepFold, WhatIsOpenAndWhatIsFoldedIsTheWholeRecordAtAnyTime) {
  fakes::LongRun run;
  const Events whole = fakes::events_of(run);
  StepFold fold(kShort);
  Events settled;
  Events open;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    open.push_back(whole[i]);
    if (i % 97 != 0) continue;
    auto result = fold.fold(std::move(open), false);
    settled.insert(settled.end(), result.settled.begin(), result.settled.end());
    open = std::move(result.open);
    Events killed = settled;
    if (result.stretch) killed.push_back(*result.stretch);
    killed.insert(killed.end(), open.begin(), open.end());
    const auto end = whole.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    ASSERT_EQ(said_of(killed), said_of(Events(whole.begin(), end))) << "after event " << i;
  }
}

// Steps that were folded before a rank began to speak were not compared with it.
TEST(StepFold, ARankThatTheFoldedStepsDoNotHaveIsMissed) {
  fakes::LongRun run;
  Events events = fakes::folded(fakes::events_of(run), 500, kShort);
  EXPECT_EQ(judge(fakes::evidence_of(events), all_checks(), {}).outcome, Outcome::pass);
  events.push_back(Event::of(kController, 1, Started{2, 102}));
  const Judgement judged = judge(fakes::evidence_of(events), all_checks(), {});
  EXPECT_EQ(judged.outcome, Outcome::inconclusive);
  EXPECT_NE(judged.reason.find("what rank 2 did in steps"), std::string::npos) << judged.reason;
}

}  // namespace
}  // namespace harness
