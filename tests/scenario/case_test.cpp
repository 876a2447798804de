// A case is one value in three forms: in memory, as canonical JSON, as an id. Laws over random scenarios.
#include "harness/scenario/case.h"

#include <filesystem>
#include <functional>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/manifest.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"

namespace {

using harness::Case;

// Draws the lines of a valid scenario.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::string scenario() {
    ranks_ = 1 + random_() % 4;
    std::string text = "version: 1\nscenario: s\nkind: training\nchecks: [finite, progress]\n";
    text += "about: " + quoted() + "\n";
    if (flip()) text += "seed: " + std::to_string(static_cast<std::int64_t>(random_())) + "\n";
    text += "model: {use: " + pick({"toy", "small"}) + optional(", n_sel: 4") +
            optional(", rope_scale: 1.7") + optional(", gate_hidden: 5") + "}\n";
    text += "training: {seq_len: 16, steps: 2" + optional(", precision: fp64") +
            optional(", data: {text: [sub/../corpus.txt, corpus.txt]}") +
            optional(", optimizer: {lr: " + number() + ", eps: 1e-30}") + "}\n";
    text += "parallel: {ranks: " + std::to_string(ranks_) +
            optional(", ddp: {bucket_mb: " + number() + "}") + "}\n";
    if (flip()) text += "route: {attend_sel: masked}\n";
    if (flip())
      text += "requires: {gpus: 1, memory_gib: " + number() +
              optional(", gpu_memory_gib: " + number()) + "}\nbudget: {seconds: " + number() +
              optional(", cores: 3") + "}\n";
    if (flip()) text += fault();
    if (flip()) text += expectation();
    if (flip()) {
      text += "life: {save_every: 1" + optional(", kill_step: 2, kill_phase: save") +
              optional(", kill_after_ms: 40") + "}\n";
    }
    if (flip()) {
      text += "bisect: {over: parallel.checkpoint.layers" + optional(", candidates: [0]") + "}\n";
    } else if (flip()) {
      text += "known:\n- {when: {model.w: [8, 24], parallel.ranks: " + std::to_string(ranks_) +
              "}, outcome: OOM, because: " + quoted("x") + optional(", code: OOM.HOST") +
              ", until: 2027-01-31}\n";
    }
    if (flip()) text += "axes: {model.w: [8, 24], seed: [1, 2]}\n";
    return text;
  }

 private:
  bool flip() { return random_() % 2 == 0; }
  std::string optional(const std::string& text) { return flip() ? text : ""; }
  std::string pick(std::vector<std::string> from) { return from[random_() % from.size()]; }
  std::string number() {
    return std::to_string(1 + random_() % 999) + "." + std::to_string(random_() % 1000);
  }
  std::string quoted(std::string text = "") {
    const std::vector<std::string> pieces = {
        "a",     "\\\"",    "\\\\",    "\\n",      "\\t",
        "\\x01", "\\u2028", "\\u0085", "\xc3\xa9", "\xf0\x9f\x98\x80",
        ": ",    "# ",      "{",       "'",        " ",
        "\\x7f", "\\b",     "\\f",     "/",        "\\ufeff",
        "- ",    "&x",      "~"};
    for (std::size_t n = random_() % 12; n > 0; --n) text += pieces[random_() % pieces.size()];
    return "\"" + text + "\"";
  }
  std::string fault() {
    return "fault: {name: first_key" + optional(", layers: [0]") + optional(", step: 2") +
           pick({"", ", rank: all", ", rank: " + std::to_string(ranks_ - 1)}) +
           optional(", strength: 0.0" + number().substr(0, 1) + "7") + optional(", seed: -3") +
           optional(", form: last_block") + "}\n";
  }
  std::string expectation() {
    return "expect: {outcome: " + pick({"FAIL", "HANG", "CRASH"}) +
           optional(", code: A.B or C.D_E") +
           optional(
               ", site: {layers: [1, 2], branch: sel, rows: [15, 31], step: 0, bucket: 0, detail: "
               "{factor: 0.5, name: '7', list: [1, true, ~], deep: {a: {}}}}") +
           "}\n";
  }

  std::mt19937_64 random_;
  std::uint64_t ranks_ = 1;
};

class CaseTest : public testing::Test {
 protected:
  std::vector<Case> load(const fakes::TempFolder& folder, const std::string& text) {
    folder.write("corpus.txt", std::string(1000, 'a'));
    folder.write("other/default.txt", std::string(1000, 'b'));
    options_.default_text = folder / "other";
    return harness::load_cases(folder.write("s.yaml", text), options_, manifest_);
  }
  harness::Manifest manifest_ = fakes::manifest();
  harness::ScenarioOptions options_ = fakes::scenario_options(fakes::tree());
};

TEST_F(CaseTest, JsonReadsBackToAnEqualCase) {
  const fakes::TempFolder folder;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const std::string text = Generator(seed).scenario();
    for (const Case& the_case : load(folder, text)) {
      const std::string json = harness::case_to_json(the_case);
      Case back;
      ASSERT_EQ(error_of([&] { back = harness::case_from_json(json, "case.json"); }), "no error")
          << json;
      ASSERT_EQ(back, the_case) << text << "\n" << json;
      ASSERT_EQ(harness::case_to_json(back), json);
    }
  }
}

TEST_F(CaseTest, TheIdIsTheSameOnEveryMachine) {
  const fakes::TempFolder here;
  const fakes::TempFolder there;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::string text = Generator(seed).scenario();
    const std::vector<Case> a = load(here, text);
    const std::vector<Case> b = load(there, text);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].id, b[i].id) << text;
      ASSERT_NE(a[i].scenario.training.data.text, b[i].scenario.training.data.text);
    }
  }
}

TEST_F(CaseTest, TheIdIsPinned) {
  // It lies in databases: a change of the canonical form makes every old case a stranger.
  const fakes::TempFolder folder;
  const auto cases = load(folder,
                          "version: 1\nscenario: s\nkind: training\nmodel: {use: toy}\n"
                          "training: {seq_len: 16}\nchecks: [finite]\n");
  EXPECT_EQ(cases.at(0).id, "8a8d8817d0719c41");
}

// A seam that came later: its default is no part of the case, another implementation is.
TEST_F(CaseTest, TheIdHeedsALaterSeamOnlyWhereItIsNotTheDefault) {
  const fakes::TempFolder folder;
  const auto id = [&](const std::string& route) {
    return load(folder,
                "version: 1\nscenario: s\nkind: training\nmodel: {use: toy}\n" + route +
                    "training: {seq_len: 16}\nchecks: [finite]\n")
        .at(0)
        .id;
  };
  EXPECT_EQ(id("route: {norm: reference, mlp: reference}\n"), id(""));
  EXPECT_NE(id("route: {norm: fused}\n"), id(""));
  EXPECT_NE(id("route: {mlp: lean}\n"), id(""));
}

TEST_F(CaseTest, TheIdHeedsEveryValueAndNoComment) {
  const fakes::TempFolder folder;
  const std::string head = "version: 1\nscenario: s\nkind: training\n";
  const std::string rest = "training: {seq_len: 16}\nchecks: [finite]\n";
  const auto id = [&](const std::string& text) { return load(folder, head + text).at(0).id; };
  const std::string plain = id("model: {use: toy}\n" + rest);
  EXPECT_EQ(
      id("# a comment\nabout: other words\nclaim: somebody's words\nmodel: {w: 64, use: toy}\n" +
         rest),
      plain);
  std::set<std::string> ids = {plain};
  const std::vector<std::string> changes = {"model.w=65",
                                            "model.rope_scale=2",
                                            "training.steps=2",
                                            "training.optimizer.lr=0.1",
                                            "parallel.ranks=1",
                                            "parallel.ddp.bucket_mb=1",
                                            "route.attend_sel=masked",
                                            "seed=1",
                                            "fault=same_data",
                                            "expect={code: A.B}",
                                            "checks=[progress]",
                                            "budget.seconds=3",
                                            "budget.cores=3",
                                            "requires.gpu_memory_gib=3",
                                            "requires.memory_gib=1",
                                            "training.data.text=[corpus.txt]",
                                            "life.save_every=1",
                                            "bisect.over=parallel.checkpoint.layers",
                                            "known=[{when: {seed: 0}, outcome: FAIL, because: x, "
                                            "until: 2027-01-31}]",
                                            "model.name=other"};
  for (const std::string& change : changes) {
    const std::size_t equals = change.find('=');
    options_.sets = {{change.substr(0, equals), change.substr(equals + 1)}};
    EXPECT_TRUE(ids.insert(id("model: {use: toy}\n" + rest)).second) << change;
  }
}

TEST_F(CaseTest, ABrokenCaseIsRefused) {
  const fakes::TempFolder folder;
  const std::string json = harness::case_to_json(load(folder, Generator(1).scenario()).at(0));
  const auto refusal = [](const std::string& text) {
    return error_of([&] { (void)harness::case_from_json(text, "case.json"); });
  };
  EXPECT_THAT(refusal("{}"), testing::StartsWith("case.json:1: found no scenario"));
  EXPECT_THAT(refusal("{\"extra\": 1, " + json.substr(1)),
              testing::StartsWith("case.json:1: key: found \"extra\""));
  EXPECT_NE(refusal(json.substr(0, json.size() / 2)), "no error");
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {  // whatever one byte becomes: a case or a clear error
    std::string broken = json;
    broken[random() % broken.size()] = static_cast<char>(random() % 256);
    const std::string message = refusal(broken);
    EXPECT_TRUE(message == "no error" || message.starts_with("case.json")) << message;
  }
}

}  // namespace
