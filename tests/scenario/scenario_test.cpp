// How a scenario file becomes cases, and how each mistake in one is told.
#include "harness/scenario/scenario.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/scenario/case.h"
#include "nsa/base/yaml.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"

namespace {

using harness::Case;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Line 1 is `version`, 2 `scenario`, ..., 7 `checks`: tests add lines from 8 on.
constexpr const char* kHead =
    "version: 1\n"
    "scenario: s\n"
    "kind: training\n"
    "model: {use: toy}\n"
    "training: {seq_len: 16, data: {text: [corpus.txt]}}\n"
    "parallel: {ranks: 2}\n"
    "checks: [finite]\n";

class ScenarioTest : public testing::Test {
 protected:
  ScenarioTest() { folder_.write("corpus.txt", std::string(1000, 'a')); }

  std::vector<Case> load(const std::string& text, const std::string& name = "s.yaml") {
    return harness::load_cases(folder_.write(name, text), options_, manifest_);
  }
  std::string error(const std::string& text, const std::string& name = "s.yaml") {
    std::string message = error_of([&] { (void)load(text, name); });
    const std::string folder = folder_.path() + "/";
    for (std::size_t at = message.find(folder); at != std::string::npos;
         at = message.find(folder)) {
      message.erase(at, folder.size());
    }
    return message;
  }
  harness::Scenario one(const std::string& text) {
    const std::vector<Case> cases = load(text);
    EXPECT_EQ(cases.size(), 1U);
    return cases.at(0).scenario;
  }

  fakes::TempFolder folder_;
  harness::Manifest manifest_ = fakes::manifest();
  harness::ScenarioOptions options_ = fakes::scenario_options(fakes::tree());
};

TEST_F(ScenarioTest, FillsInEveryDefault) {
  const harness::Scenario scenario = one(kHead);
  EXPECT_EQ(scenario.name, "s");
  EXPECT_EQ(scenario.path, folder_ / "s.yaml");
  EXPECT_EQ(scenario.text, kHead);
  EXPECT_EQ(scenario.seed, 0);
  EXPECT_EQ(scenario.budget_seconds, 300.0);
  EXPECT_EQ(scenario.route.size() + 3, manifest_.seams.size()) << "all but mlp, norm, transport";
  EXPECT_EQ(scenario.route.at("attend_sel"), "reference");
  EXPECT_EQ(scenario.training.data.text, std::vector<std::string>{folder_ / "corpus.txt"});
  EXPECT_FALSE(scenario.fault.has_value());
  EXPECT_FALSE(scenario.expect.has_value());
}

TEST_F(ScenarioTest, GlooRanksMayShareAGpu) {
  EXPECT_EQ(
      error(std::string(kHead) +
            "requires: {gpus: 1}\nprofiles: {gpu: {parallel: {device: cuda, backend: gloo}}}\n"),
      "no error");
  harness::Scenario scenario;
  scenario.requires_gpus = 1;
  EXPECT_EQ(scenario.card_of(0), 0);
  EXPECT_EQ(scenario.card_of(1), 0) << "they share the one that was asked for";
  scenario.requires_gpus = 2;
  EXPECT_EQ(scenario.card_of(1), 1);
  EXPECT_EQ(scenario.card_of(2), 0);
}

TEST_F(ScenarioTest, DetailKeepsTextAndNumbersApart) {
  const harness::Scenario scenario =
      one(std::string(kHead) +
          "expect: {code: A.B, site: {detail: {a: 7, b: '7', c: 0.5, d: true, e: x}}}\n");
  EXPECT_EQ(scenario.expect->site.detail.json().dump(), R"({"a":7,"b":"7","c":0.5,"d":true,"e":"x"})");
}

TEST_F(ScenarioTest, EveryShippedScenarioIsRead) {
  int count = 0;
  const std::string root = fakes::tree() + "/scenarios";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    ++count;
    for (const int gpus : {0, 8}) {
      options_.gpus = gpus;
      const auto cases = harness::load_cases(entry.path().string(), options_, manifest_);
      ASSERT_GE(cases.size(), 1U) << entry.path();
      const bool has_gpu = cases[0].scenario.text.find("\n  gpu:") != std::string::npos;
      EXPECT_EQ(cases[0].scenario.profile, gpus > 0 && has_gpu ? "gpu" : "") << entry.path();
      const bool in_museum = entry.path().parent_path().filename() == "museum";
      EXPECT_EQ(cases[0].scenario.claim.empty(), !in_museum) << entry.path();
      if (in_museum) continue;  // with a fault, or with the situation alone
      const bool planted = entry.path().parent_path().filename() == "faults";
      EXPECT_EQ(cases[0].scenario.fault.has_value(), planted);
      // A refusal needs no fault to be expected.
      const auto& expect = cases[0].scenario.expect;
      EXPECT_EQ(expect.has_value() && expect->code != "ROUTE.REFUSED", planted) << entry.path();
      if (planted) {
        // One fault may have a scenario for each of its forms: uninit_buffer_backward.
        EXPECT_TRUE(cases[0].scenario.name.starts_with(cases[0].scenario.fault->name))
            << entry.path();
      }
      EXPECT_GE(cases[0].scenario.checks.size(), 4U) << entry.path();
    }
  }
  EXPECT_GE(count, 8);
}

struct Mistake {
  const char* lines;    // added after the head
  const char* message;  // how the error begins
};

TEST_F(ScenarioTest, MistakesAreToldAtTheirLine) {
  const std::vector<Mistake> table = {
      {"chekcs: [finite]\n", "s.yaml:8: key: found \"chekcs\", wanted one of version, "},
      {"about: [a]\n", "s.yaml:8: about: found a list, wanted text"},
      {"seed: 1.5\n", "s.yaml:8: seed: found \"1.5\", wanted a whole number"},
      {"checks: []\n", "s.yaml:8: found the key \"checks\" twice"},
      {"route: {attend_selected: reference}\n",
       "s.yaml:8: seam of route: found \"attend_selected\""},
      {"route:\n  attend_sel: maskd\n",
       "s.yaml:9: route.attend_sel: found \"maskd\", wanted one of reference, masked, packed, "
       "gather, fa2, fa2_varlen, cuda, cuda_mma, by_hand, auto; did you mean "
       "\"masked\"?"},
      {"route: [a]\n", "s.yaml:8: route: found a list, wanted a map"},
      {"requires: {gpus: -1}\n", "s.yaml:8: requires.gpus: found -1"},
      {"requires: {memory_gib: .nan}\n", "s.yaml:8: requires.memory_gib: found NaN"},
      {"requires: {gpu: 1}\n",
       "s.yaml:8: key of requires: found \"gpu\", wanted one of gpus, memory_gib, gpu_memory_gib; "
       "did you"},
      {"requires: {gpu_memory_gib: -1}\n", "s.yaml:8: requires.gpu_memory_gib: found -1"},
      {"budget: {cores: -1}\n", "s.yaml:8: budget.cores: found -1, wanted 0.."},
      {"budget: {seconds: 0}\n", "s.yaml:8: budget.seconds: found 0"},
      {"budget: {seconds: .inf}\n", "s.yaml:8: budget.seconds: found Infinity"},
      {"fault: {}\n", "s.yaml:8: fault: found no name"},
      {"fault: kcmp_detached\n", "s.yaml:8: fault: found \"kcmp_detached\", wanted a map"},
      {"fault: {name: kcmp_detach}\n",
       "s.yaml:8: fault.name: found \"kcmp_detach\", wanted one of "},
      {"fault: {name: kcmp_detached, layers: [1]}\n",
       "s.yaml:8: fault.layers: found 1, wanted layers of 0..0"},
      {"fault: {name: kcmp_detached, layers: [0, 0]}\n", "s.yaml:8: fault.layers: found 0 twice"},
      {"fault: {name: rank_killed, rank: 2}\n",
       "s.yaml:8: fault.rank: found \"2\", wanted all or 0..1"},
      {"fault: {name: rank_killed, rank: -1}\n", "s.yaml:8: fault.rank: found \"-1\""},
      {"fault: {name: rank_killed, rank: every}\n", "s.yaml:8: fault.rank: found \"every\""},
      {"fault: {name: rank_killed, step: 2}\n", "s.yaml:8: fault.step: found 2, wanted 1..1"},
      {"fault: {name: rank_killed, step: 0}\n", "s.yaml:8: fault.step: found 0"},
      {"fault: {name: same_data, strength: 0}\n", "s.yaml:8: fault.strength: found 0"},
      {"fault: {name: same_data, strength: 1.5}\n", "s.yaml:8: fault.strength: found 1.5"},
      {"fault: {name: same_data, strength: .nan}\n", "s.yaml:8: fault.strength: found NaN"},
      {"fault: {name: same_data, layers: [0]}\n",
       "s.yaml:8: fault.layers: same_data does not heed it"},
      {"fault: {name: first_key, form: some_rows}\n",
       "s.yaml:8: fault.form: found \"some_rows\", wanted one of all_rows"},
      {"fault: {name: same_data, sed: 1}\n", "s.yaml:8: key of fault: found \"sed\""},
      {"expect: {}\n", "s.yaml:8: expect: found neither outcome nor code"},
      {"expect: {outcome: fail}\n",
       "s.yaml:8: expect.outcome: found \"fail\", wanted one of PASS, FAIL"},
      {"expect: {code: missing}\n", "s.yaml:8: expect.code: found \"missing\""},
      {"expect: {code: GRAD.MISSING or}\n", "s.yaml:8: expect.code"},
      {"expect: {code: A.B, site: {layer: [1]}}\n",
       "s.yaml:8: key of expect.site: found \"layer\""},
      {"expect: {code: A.B, site: {detail: 3}}\n",
       "s.yaml:8: expect.site.detail: found \"3\", wanted a map"},
      {"life: {save_every: -1}\n", "s.yaml:8: life.save_every: found -1, wanted 0..1000000000"},
      {"life: {kill_step: 2}\n", "s.yaml:8: life.kill_step: found 2, wanted 0..1"},
      {"life:\n  kill_step: x\n", "s.yaml:9: life.kill_step: found \"x\", wanted a whole number"},
      {"life: {kill_phase: saving}\n",
       "s.yaml:8: life.kill_phase: found \"saving\", wanted one of data, forward, backward, "
       "optimizer, save"},
      {"life: {kill_after_ms: 3600001}\n",
       "s.yaml:8: life.kill_after_ms: found 3600001, wanted 0..3600000"},
      {"life: {kill_step: 1,\n  kill_phase: save}\n",
       "s.yaml:9: life.kill_phase: found save without life.save_every"},
      {"life: {save_evry: 1}\n", "s.yaml:8: key of life: found \"save_evry\""},
      {"life: [1]\n", "s.yaml:8: life: found a list, wanted a map"},
      {"bisect: {}\n", "s.yaml:8: bisect: found nothing to bisect over"},
      {"bisect: {over: checks}\n", "s.yaml:8: bisect: found no candidates, wanted a list"},
      {"bisect: {over: parallel.checkpoint.layers, candidates: []}\n",
       "s.yaml:8: bisect.candidates: found 0, wanted 1..1024"},
      {"bisect: {over: parallel.checkpoint.layers,\n  candidates: [0, 0]}\n",
       "s.yaml:9: bisect.candidates: found \"0\" twice, wanted it once"},
      {"bisect: {over: parallel.checkpoint.layers, candidates: [a b]}\n",
       "s.yaml:8: bisect.candidates: found \"a b\", wanted a number or a name"},
      {"bisect: {over: parallel.checkpoint.layers, candidates: [7]}\n",
       "s.yaml:8: bisect: with parallel.checkpoint.layers [7]: the trial:1: "
       "parallel.checkpoint.layers: found \"7\", wanted 0..0"},
      {"bisect: {over: parallel.checkpoint.layer, candidates: [0]}\n",
       "s.yaml:8: bisect: with parallel.checkpoint.layer [0]: the trial:1: key of "
       "parallel.checkpoint: found \"layer\""},
      {"bisect: {over: model.w, candidates: [8, 16]}\n",
       "s.yaml:8: bisect: with model.w [8, 16]: the trial:1: model.w: found a list"},
      {"axes: {parallel.checkpoint: [{}]}\nbisect: {over: parallel.checkpoint.layers}\n",
       "s.yaml:9: bisect.over: found parallel.checkpoint.layers beside the axis "
       "parallel.checkpoint"},
      {"known: {}\n", "s.yaml:8: known: found a map, wanted a list of known failures"},
      {"known: [{}]\n", "s.yaml:8: known: found no when, wanted one"},
      {"known: [{when: {}, outcome: FAIL}]\n", "s.yaml:8: known.when: found nothing"},
      {"known:\n  - {when: {model.v: 3}, outcome: FAIL, because: x, until: 2027-01-31}\n",
       "s.yaml:9: known.when: found model.v, wanted the path of a value of the scenario"},
      {"known: [{when: {seed: 0}, outcome: PASS, because: x, until: 2027-01-31}]\n",
       "s.yaml:8: known.outcome: found \"PASS\", wanted one of FAIL, HANG, SLOW, CRASH, OOM"},
      {"known: [{when: {seed: 0}, outcome: FAIL, code: x, because: x, until: 2027-01-31}]\n",
       "s.yaml:8: known.code: found \"x\", wanted a code like GRAD.MISSING"},
      {"known: [{when: {seed: 0}, outcome: FAIL, because: '', until: 2027-01-31}]\n",
       "s.yaml:8: known.because: found nothing"},
      {"known: [{when: {seed: 0}, outcome: FAIL, because: x}]\n",
       "s.yaml:8: known: found no until"},
      {"known: [{when: {seed: 0}, outcome: FAIL, because: x, until: 2027-02-29}]\n",
       "s.yaml:8: known.until: found \"2027-02-29\", wanted a date YYYY-MM-DD"},
      {"known: [{when: {seed: 0}, outcome: FAIL, because: x, until: 27-2-2}]\n",
       "s.yaml:8: known.until: found \"27-2-2\""},
      {"known: [{when: {seed: 0}, outcome: FAIL, because: x, until: 2027-01-31, unti: x}]\n",
       "s.yaml:8: key of known: found \"unti\""},
      {"bisect: {over: parallel.checkpoint.layers}\n"
       "known: [{when: {seed: 1}, outcome: FAIL, because: x, until: 2027-01-31}]\n",
       "s.yaml:9: known: found it beside bisect, wanted one of them"},
      {"profiles: {gpu: [1]}\n", "s.yaml:8: profiles.gpu: found a list, wanted a map"},
      {"profiles: {base: {}}\n", "s.yaml:8: profiles: found \"base\""},
      {"profiles:\n  gpu: {model: {n_sell: 3}}\n", "s.yaml:9: key of model: found \"n_sell\""},
      {"profiles:\n  gpu: {scenario: t}\n",
       "s.yaml:9: found scenario, wanted a value of the scenario"},
      {"attention: {trace_kernels: true}\n",
       "s.yaml:8: attention.trace_kernels: found true, wanted it with kind attention and "},
      {"profiles:\n  gpu: {parallel: {device: cuda}}\n",
       "s.yaml:9: requires.gpus: found 0, wanted at least 2"},
      {"profiles:\n  gpu: {parallel: {device: cuda}, requires: {gpus: 1}}\n",
       "s.yaml:9: requires.gpus: found 1, wanted at least 2: with nccl every rank needs a GPU"},
      {"axes: [1]\n", "s.yaml:8: axes: found a list, wanted a map"},
      {"axes: {model.w: 3}\n", "s.yaml:8: axes.model.w: found \"3\", wanted a list"},
      {"axes: {model.w: []}\n", "s.yaml:8: axes.model.w: found an empty list"},
      {"axes: {model.w: [3, 3]}\n", "s.yaml:8: axes.model.w: found 3 twice"},
      {"axes: {model.w: [3, 03]}\n", "s.yaml: axes: found the case s[model.w=03] a second time"},
      {"axes:\n  model.v: [3]\n", "s.yaml:9: key of model: found \"v\""},
      {"axes: {scenario: [a, b]}\n", "s.yaml:8: found scenario, wanted a value"},
      {"axes: {model..w: [3]}\n", "s.yaml:8: found a path with an empty"},
      {"axes: {parallel: [{}], parallel.ranks: [1]}\n",
       "s.yaml:8: axes: found parallel.ranks beside parallel"},
  };
  for (const Mistake& row : table) {
    EXPECT_THAT(error(std::string(kHead) + row.lines), StartsWith(row.message)) << row.lines;
  }
}

TEST_F(ScenarioTest, LifeIsOfKindTraining) {
  const harness::Scenario scenario =
      one(std::string(kHead) + "life: {save_every: 1, kill_step: 1, kill_phase: save}\n");
  EXPECT_EQ(scenario.life, (harness::LifeConfig{1, 1, "save", 0}));
  std::string text = std::string(kHead) + "life: {save_every: 1}\n";
  text.replace(text.find("training\n"), 9, "decode\n");
  EXPECT_EQ(error(text), "s.yaml:8: life: found it in kind decode, wanted kind training");
}

// What only a captured step cannot have, each by its name, at the line of the key.
TEST_F(ScenarioTest, AGraphIsRefusedWhereNothingCanBeCaptured) {
  const std::string head =
      "version: 1\n"
      "scenario: s\n"
      "kind: throughput\n"
      "model: {use: toy}\n"
      "training:\n"
      "  seq_len: 64\n"
      "  steps: 8\n"
      "  cuda_graph: true\n"
      "parallel: {ranks: 1, device: cuda}\n"
      "requires: {gpus: 1}\n"
      "checks: [progress]\n";
  EXPECT_TRUE(one(head).training.cuda_graph);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = head;
    return error(text.replace(text.find(from), from.size(), to));
  };
  const std::string found = "s.yaml:8: training.cuda_graph: found true, wanted it ";
  EXPECT_THAT(with("throughput", "training"), StartsWith(found + "with kind throughput: "));
  EXPECT_THAT(with(", device: cuda", ""), StartsWith(found + "with parallel.device cuda: "));
  EXPECT_THAT(with("ranks: 1", "ranks: 2"), StartsWith(found + "with parallel.ranks 1: "));
  EXPECT_THAT(with("cuda}\n", "cuda, checkpoint: {layers: [0]}}\n"),
              StartsWith(found + "without parallel.checkpoint.layers: "));
  EXPECT_THAT(with("steps: 8", "steps: 2"), StartsWith(found + "with training.steps above 2: "));
  EXPECT_THAT(error(head + "fault: {name: kcmp_detached}\n"),
              StartsWith(found + "without a fault: "));
}

TEST_F(ScenarioTest, ALossMaskIsOfKindTrainingAlone) {
  options_.sets = {{"training.data.loss_mask", "ragged"}};
  EXPECT_EQ(one(kHead).training.data.loss_mask, nsa::DataConfig::LossMask::ragged);
  options_.sets.emplace_back("kind", "throughput");
  EXPECT_THAT(error(kHead),
              HasSubstr("training.data.loss_mask: found ragged with kind throughput"));
}

TEST_F(ScenarioTest, PackedDocumentsAreRefusedWhereTheyAreNotJudged) {
  using Sets = std::vector<std::pair<std::string, std::string>>;
  const Sets packed = {{"training.data.packed", "4"}, {"training.seq_len", "64"}};
  options_.sets = packed;
  EXPECT_EQ(one(kHead).training.data.packed, 4);
  options_.sets.emplace_back("training.precision", "bf16");
  EXPECT_EQ(one(kHead).training.data.packed, 4);
  const std::vector<std::pair<Sets, std::string>> refusals = {
      {{{"kind", "throughput"}}, "with kind training, not throughput"},
      {{{"training.seq_len", "7"}}, "no larger than half of training.seq_len, 3"},
      {{{"training.data.loss_mask", "ragged"}}, "with training.data.loss_mask none"},
      {{{"training.data.source", "long_range"}, {"training.data.distance", "3"}},
       "without training.data.source long_range"},
      {{{"training.precision", "bf16_autocast"}},
       "with training.precision fp64, fp32, bf16 or fp16"},
      {{{"parallel.checkpoint.layers", "all"}}, "without parallel.checkpoint.layers"}};
  for (const auto& [more, wanted] : refusals) {
    options_.sets = packed;
    options_.sets.insert(options_.sets.end(), more.begin(), more.end());
    EXPECT_THAT(error(kHead), HasSubstr("training.data.packed: found 4, wanted it " + wanted));
  }
}

TEST_F(ScenarioTest, ATiedHeadIsOfWideTypesAlone) {
  options_.sets = {{"model.tied_head", "true"}};
  EXPECT_TRUE(one(kHead).model.tied_head);
  options_.sets.emplace_back("training.precision", "bf16");
  EXPECT_THAT(error(kHead), HasSubstr("model.tied_head: found true, wanted it with"));
}

TEST_F(ScenarioTest, DropoutIsOfTrainingBlockByBlock) {
  options_.sets = {{"model.dropout", "0.1"}};
  EXPECT_EQ(one(kHead).model.dropout, 0.1);
  options_.sets.emplace_back("training.precision", "bf16_autocast");
  EXPECT_EQ(one(kHead).model.dropout, 0.1);
  options_.sets = {{"model.dropout", "1"}};
  EXPECT_THAT(error(kHead), HasSubstr("model.dropout: found 1"));
  options_.sets = {{"model.dropout", "0.1"}, {"kind", "throughput"}};
  EXPECT_THAT(error(kHead), HasSubstr("model.dropout: found 0.1 with kind throughput"));
}

TEST_F(ScenarioTest, BisectHasTheLayersAsItsCandidates) {
  options_.sets = {{"model.n_layers", "3"}};
  const std::string text = std::string(kHead) + "bisect: {over: parallel.checkpoint.layers}\n";
  EXPECT_EQ(one(text).bisect.candidates, (std::vector<std::string>{"0", "1", "2"}));
  options_.sets.emplace_back("bisect", "");
  EXPECT_EQ(one(text).bisect, harness::BisectConfig{});
}

TEST_F(ScenarioTest, TheFirstKnownFailureThatHoldsAtAPointIsItsOwn) {
  const std::string text = std::string(kHead) +
                           "axes: {model.w: [8, 16, 24, 32], seed: [1, 2]}\n"
                           "known:\n"
                           "  - {when: {model.w: 8, seed: 1}, outcome: HANG, code: A.B or C.D, "
                           "because: one, until: 2027-01-31}\n"
                           "  - {when: {model.w: [8, 16], parallel.checkpoint.mode: functional, "
                           "training.optimizer.eps: 1e-08},\n"
                           "     outcome: FAIL, because: two, until: 2026-11-22}\n"
                           "  - {when: {model.w: 24, fault.name: rank_killed}, outcome: FAIL, "
                           "because: three, until: 2027-01-31}\n"
                           "  - {when: {parallel.checkpoint.layers: none, model.w: 32}, "
                           "outcome: FAIL, because: four, until: 2026-11-21}\n";
  const auto reasons = [&] {
    std::vector<std::string> all;
    for (const Case& the_case : load(text)) {
      const auto& known = the_case.scenario.known;
      all.push_back(known ? known->because : "-");
      EXPECT_EQ(harness::case_from_json(harness::case_to_json(the_case), "c"), the_case);
    }
    return all;
  };
  using Reasons = std::vector<std::string>;
  EXPECT_EQ(reasons(), (Reasons{"one", "two", "two", "two", "-", "-", "four", "four"}));
  std::vector<std::string> notes;
  options_.on_note = [&](const std::string& line) { notes.push_back(line); };
  options_.today = "2026-11-21";
  EXPECT_EQ(reasons(), (Reasons{"one", "two", "two", "two", "-", "-", "-", "-"}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0],
              EndsWith("s.yaml:14: known failure expired on 2026-11-21, it counts again: four"));
  const harness::KnownFailure known = *load(text)[1].scenario.known;
  EXPECT_EQ(
      known.when,
      (std::vector<std::pair<std::string, std::string>>{{"model.w", "8"},
                                                        {"parallel.checkpoint.mode", "functional"},
                                                        {"training.optimizer.eps", "1e-08"}}));
  EXPECT_EQ(known.outcome, harness::Outcome::fail);
  EXPECT_EQ(load(text)[0].scenario.known->code, "A.B or C.D");
}

TEST_F(ScenarioTest, MistakesInTheHead) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kHead;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_EQ(error(with("version: 1", "version: 2")), "s.yaml:1: version: found 2, wanted 1");
  EXPECT_EQ(error(with("version: 1\n", "")),
            "s.yaml:1: found no key \"version\", which every scenario needs");
  EXPECT_EQ(error(with("scenario: s", "scenario: t")),
            "s.yaml:2: scenario: found \"t\" in the file s.yaml, wanted t.yaml");
  EXPECT_THAT(error(with("scenario: s", "scenario: ../s")),
              StartsWith("s.yaml:2: scenario: found \"../s\""));
  EXPECT_EQ(
      error(with("training\n", "trainign\n")),
      "s.yaml:3: kind: found \"trainign\", wanted one of attention, decode, sweep, throughput, "
      "training, command; "
      "did you mean "
      "\"training\"?");
  EXPECT_THAT(error(with("training\n", "canary\n")),
              StartsWith("s.yaml:3: kind: found \"canary\", wanted one of attention, decode"));
  EXPECT_THAT(error(with("use: toy", "use: tiny")),
              StartsWith("s.yaml:4: model.use: found \"tiny\""));
  EXPECT_THAT(error(with("seq_len: 16", "seq_len: 1")),
              HasSubstr("training.seq_len: found 1, wanted at least 2"));
  EXPECT_THAT(error(with("{ranks: 2}", "{ranks: 0}")),
              StartsWith("s.yaml:6: parallel.ranks: found 0"));
  EXPECT_THAT(
      error(with("[finite]", "[finit]")),
      AllOf(StartsWith("s.yaml:7: checks: found \"finit\""), EndsWith("did you mean \"finite\"?")));
  EXPECT_THAT(error(with("[finite]", "[]")), StartsWith("s.yaml:7: checks: found none"));
  EXPECT_THAT(error(with("[finite]", "[finite, finite]")),
              StartsWith("s.yaml:7: checks: found \"finite\" twice"));
  EXPECT_THAT(error(with("{use: toy}", "{use: toy, vocab_size: 255}")),
              StartsWith("s.yaml:4: model.vocab_size"));
  EXPECT_THAT(error(kHead, "s.yml"), HasSubstr("wanted s.yaml"));
  EXPECT_THAT(error("- 1\n"), StartsWith("s.yaml:1: the document: found a list, wanted a map"));
  EXPECT_THAT(error(""), StartsWith("s.yaml:1: found no key \"version\""));
}

TEST_F(ScenarioTest, ATextThatIsTooShortOrMissing) {
  folder_.write("corpus.txt", std::string(31, 'a'));
  EXPECT_EQ(error(kHead),
            "s.yaml:5: training.data: found 31 bytes of text, wanted at least 32 (steps x "
            "accumulate x ranks "
            "x batch_size x seq_len)");
  folder_.write("corpus.txt", std::string(32, 'a'));
  EXPECT_EQ(error(kHead), "no error");
  std::filesystem::remove(folder_ / "corpus.txt");
  EXPECT_EQ(error(kHead),
            "s.yaml:5: training.data: cannot read corpus.txt: No such file or directory");
}

TEST_F(ScenarioTest, MissingAndOversizedFiles) {
  EXPECT_THAT(
      error_of([&] { (void)harness::load_cases(folder_ / "none.yaml", options_, manifest_); }),
      HasSubstr("none.yaml: No such file"));
  EXPECT_THAT(error(std::string(300'000, '#')), HasSubstr("wanted at most 262144"));
}

TEST_F(ScenarioTest, TheProfileIsChosenByWhatIsThere) {
  const std::string text =
      std::string(kHead) +
      "profiles:\n  gpu: {model: {w: 32}, requires: {gpus: 2}}\n  big: {model: {w: 48}}\n";
  const auto width = [&](int gpus, std::optional<std::string> profile) {
    options_.gpus = gpus;
    options_.profile = std::move(profile);
    const harness::Scenario scenario = one(text);
    return std::pair(scenario.model.w, scenario.profile);
  };
  using Chosen = std::pair<std::int64_t, std::string>;
  EXPECT_EQ(width(0, {}), Chosen(64, ""));
  EXPECT_EQ(width(1, {}), Chosen(64, ""));
  EXPECT_EQ(width(2, {}), Chosen(32, "gpu"));
  EXPECT_EQ(width(2, "base"), Chosen(64, ""));
  EXPECT_EQ(width(0, "gpu"), Chosen(32, "gpu"));
  EXPECT_EQ(width(8, "big"), Chosen(48, "big"));
  options_.profile = "gpus";
  EXPECT_EQ(
      error(text),
      "s.yaml: --profile: found \"gpus\", wanted one of base, gpu, big; did you mean \"gpu\"?");
}

TEST_F(ScenarioTest, SetComesAfterTheProfile) {
  options_.profile = "gpu";
  options_.sets = {{"model.w", "16"}, {"parallel", "{ranks: 3}"}, {"about", "\"x: y\""}};
  options_.seed = 7;
  const harness::Scenario scenario =
      one(std::string(kHead) + "seed: 3\nprofiles: {gpu: {model: {w: 32}}}\n");
  EXPECT_EQ(scenario.model.w, 16);
  EXPECT_EQ(scenario.parallel.ranks, 3);
  EXPECT_EQ(scenario.about, "x: y");
  EXPECT_EQ(scenario.seed, 7);
}

TEST_F(ScenarioTest, SetFaultIsShortForItsName) {
  options_.sets = {{"fault", "rank_killed"}, {"fault.rank", "1"}};
  EXPECT_EQ(one(kHead).fault->name, "rank_killed");
  EXPECT_EQ(one(kHead).fault->rank, 1);
  options_.sets = {{"fault", ""}};
  EXPECT_FALSE(one(std::string(kHead) + "fault: {name: rank_killed}\n").fault.has_value());
}

TEST_F(ScenarioTest, MistakesInSet) {
  const auto set = [&](const std::string& path, const std::string& value) {
    options_.sets = {{path, value}};
    return error(std::string(kHead) + "axes: {model.w: [8, 16]}\n");
  };
  EXPECT_THAT(set("model.ww", "3"), StartsWith("--set model.ww=3: key of model: found \"ww\""));
  EXPECT_THAT(set("model.dim", "x"),
              StartsWith("--set model.dim=x: model.dim: found \"x\", wanted a whole"));
  EXPECT_THAT(set("parallel.ranks", "0"),
              StartsWith("--set parallel.ranks=0: parallel.ranks: found 0"));
  EXPECT_THAT(set("fault", "nope"), StartsWith("--set fault=nope: fault.name: found \"nope\""));
  EXPECT_THAT(set("model.dim.x", "3"), StartsWith("--set model.dim.x=3: "));
  EXPECT_THAT(set("model..dim", "3"), StartsWith("--set model..dim=3: found a path"));
  EXPECT_THAT(set("about", "[1"), StartsWith("--set about=[1:1: not valid YAML"));
  EXPECT_THAT(set("about", "*x"), StartsWith("--set about=*x:1: "));
  EXPECT_THAT(set("model.w", "3"), StartsWith("--set model.w=3: model.w is an axis"));
  EXPECT_THAT(set("axes.model.w", "3"), StartsWith("--set axes.model.w=3: found axes"));
  EXPECT_THAT(set("scenario", "t"), StartsWith("--set scenario=t: found scenario"));
}

TEST_F(ScenarioTest, AxesAreAProductInTheOrderOfTheFile) {
  const std::string text =
      std::string(kHead) + "axes: {model.w: [8, 16], parallel.ranks: [1, 2, 3]}\n";
  std::vector<std::string> labels;
  for (const Case& the_case : load(text)) labels.push_back(the_case.label());
  EXPECT_EQ(labels,
            (std::vector<std::string>{"s[model.w=8,parallel.ranks=1]",
                                      "s[model.w=8,parallel.ranks=2]",
                                      "s[model.w=8,parallel.ranks=3]",
                                      "s[model.w=16,parallel.ranks=1]",
                                      "s[model.w=16,parallel.ranks=2]",
                                      "s[model.w=16,parallel.ranks=3]"}));
  options_.only = {{"model.w", "16"}, {"parallel.ranks", "1"}, {"parallel.ranks", "3"}};
  const std::vector<Case> kept = load(text);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[1].scenario.model.w, 16);
  EXPECT_EQ(kept[1].scenario.parallel.ranks, 3);
}

TEST_F(ScenarioTest, OnlyThatKeepsNothingIsAMistake) {
  const std::string text = std::string(kHead) + "axes: {model.w: [8, 16]}\n";
  options_.only = {{"model.w", "9"}};
  EXPECT_EQ(error(text), "s.yaml: --only model.w: found \"9\", wanted one of 8, 16");
  options_.only = {{"model.v", "8"}};
  EXPECT_THAT(error(text), StartsWith("s.yaml: axis of --only: found \"model.v\", wanted model.w"));
  EXPECT_THAT(error(kHead), StartsWith("s.yaml: --only model.v=8: found no axes"));
}

TEST_F(ScenarioTest, AProductHasALimit) {
  std::string values = "1";
  for (int i = 2; i <= 101; ++i) values += ", " + std::to_string(i);
  EXPECT_THAT(
      error(std::string(kHead) + "axes: {seed: [" + values + "], model.w: [" + values + "]}\n"),
      HasSubstr("more than 10000 cases"));
}

TEST_F(ScenarioTest, StepsMayBeWatchedLessClosely) {
  const std::string text = std::string(kHead) + "observe: 1\n";
  const std::vector<Case> closely = load(std::string(kHead) + "observe: 2\n");
  EXPECT_EQ(closely[0].id, load(kHead)[0].id) << "as ever";
  const std::vector<Case> cases = load(text);
  EXPECT_EQ(cases[0].scenario.observe, 1);
  EXPECT_NE(cases[0].id, closely[0].id) << "another measurement";
  EXPECT_EQ(harness::case_from_json(harness::case_to_json(cases[0]), "case.json"), cases[0]);
  EXPECT_THAT(error(std::string(kHead) + "observe: 3\n"), HasSubstr("found 3, wanted 0..2"));
}

TEST_F(ScenarioTest, WhatRecordsOnlyWhatItJudgesIsWatchedClosely) {
  std::string text = std::string(kHead) + "observe: 1\n";
  text.replace(text.find("training"), 8, "decode");
  EXPECT_THAT(error(text), HasSubstr("observe: found 1 with kind decode"));
}

// ---- kernels of the user's own ------------------------------------------------------------------------------------

class KernelScenario : public ScenarioTest {
 protected:
  KernelScenario() { manifest_.kinds.emplace_back(harness::kKernelKind); }
  static std::string text(const std::string& kernel, const std::string& more = "") {
    return "version: 1\nscenario: s\nkind: kernel\nmodel: {use: toy}\n"
           "training: {seq_len: 16, data: {source: uniform}" +
           more + "}\nparallel: {ranks: 1}\nkernel: {" + kernel + "}\nchecks: [kernel_is_oracle]\n";
  }
  const std::string plain_ = "callable: 'm:f', level: attend_sel";
};

TEST_F(KernelScenario, SaysWhatAKernelComputes) {
  options_.known_checks.emplace_back("kernel_is_oracle");
  const std::vector<Case> cases = load(text(plain_ + ", layout: dhsb, sentinel: 99, lse: 2"));
  ASSERT_EQ(cases.size(), 1U);
  const harness::Scenario& scenario = cases[0].scenario;
  EXPECT_TRUE(scenario.is_foreign());
  EXPECT_EQ(scenario.kernel.layout, "dhsb");
  EXPECT_EQ(scenario.kernel.sentinel, 99);
  EXPECT_EQ(scenario.kernel.lse, "2");
  EXPECT_EQ(harness::case_from_json(harness::case_to_json(cases[0]), "case.json"), cases[0]);
}

TEST_F(KernelScenario, WhatContradictsItselfIsRefused) {
  options_.known_checks.emplace_back("kernel_is_oracle");
  const auto refused = [&](const std::string& kernel, const std::string& more = "") {
    return error(text(kernel, more));
  };
  EXPECT_THAT(refused("callable: 'm:f'"), HasSubstr("kernel.level: found none"));
  EXPECT_THAT(refused("callable: mf, level: attend_win"), HasSubstr("wanted module:name"));
  EXPECT_THAT(refused(plain_ + ", layout: bsh"), HasSubstr("b, s, h and d in some order"));
  EXPECT_THAT(refused(plain_ + ", sentinel: 3"), HasSubstr("the number of a block"));
  EXPECT_THAT(refused(plain_, ", precision: bf16_pure"), HasSubstr("training.precision"));
  EXPECT_THAT(refused("callable: 'm:f', level: select"), HasSubstr("gradients false and lse none"));
  EXPECT_THAT(
      refused("callable: 'm:f', level: attend_win, picks: external"),
      HasSubstr("kernel.picks: found external, wanted it with level attend_sel or attention"));
  EXPECT_THAT(refused(plain_ + ", own_block: false"), HasSubstr("wanted it with picks external"));
  EXPECT_THAT(refused("callable: 'm:f', level: attend_win, widths: [7x6]"),
              HasSubstr("kernel.widths: found \"7x6\", wanted an even d_k and a d_v"));
  EXPECT_THAT(refused("callable: 'm:f', level: select, gradients: false, widths: [8x6]"),
              HasSubstr("kernel.widths: wanted with a level that has values"));
  EXPECT_THAT(refused("callable: 'm:f', level: attend_win, tile: [64, 5000]"),
              HasSubstr("kernel.tile: found \"5000\", wanted 2..4096"));
  EXPECT_THAT(error(std::string(kHead) + "kernel: {level: attend_win, callable: 'm:f'}\n"),
              HasSubstr("wanted with kind kernel alone"));
}

TEST_F(KernelScenario, OtherCasesSayNothingOfIt) {
  const Case the_case = load(kHead).at(0);
  EXPECT_EQ(harness::case_to_json(the_case).find("\"kernel\""), std::string::npos);
}

// ---- a command of the user's own ----------------------------------------------------------------------------------

class CommandScenario : public ScenarioTest {
 protected:
  CommandScenario() {
    manifest_.kinds.emplace_back(harness::kCommandKind);
    options_.known_checks.emplace_back("process_clean");
  }
  static std::string text(const std::string& more) {
    return "version: 1\nscenario: s\nkind: command\nchecks: [process_clean]\n" + more;
  }
};

TEST_F(CommandScenario, SaysNothingOfAModelAndComesBackFromItsJson) {
  const std::vector<Case> cases = load(text("command: {argv: [torchrun, 'train.py', '-x']}\n"));
  ASSERT_EQ(cases.size(), 1U);
  EXPECT_EQ(cases[0].scenario.command.argv,
            (std::vector<std::string>{"torchrun", "train.py", "-x"}));
  EXPECT_EQ(harness::case_from_json(harness::case_to_json(cases[0]), "case.json"), cases[0]);
}

TEST_F(CommandScenario, WhatContradictsItselfIsRefused) {
  EXPECT_THAT(error(text("")), HasSubstr("command.argv: wanted with kind command"));
  EXPECT_THAT(error(text("command: {argv: [a]}\nmodel: {use: toy}\n")), HasSubstr("model"));
  EXPECT_THAT(error(std::string(kHead) + "command: {argv: [a]}\n"),
              HasSubstr("command.argv: wanted with kind command"));
}

}  // namespace
