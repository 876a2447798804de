// Nights as a runner has them: the workflow's own command in a clean folder, one night after the other.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/store/store.h"
#include "tests/cli/program.h"
#include "tests/fakes/where.h"

namespace {

namespace fs = std::filesystem;
using fakes::ProgramResult;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Everything up to the first part that is not the first screen's.
std::string first_screen(const std::string& report) {
  return report.substr(0, report.find("\n## Comparison with the previous night"));
}

// The shell text of the workflow's step.
std::string step_of_workflow() {
  std::ifstream file(fakes::tree() + "/.github/workflows/nightly.yml");
  std::string script;
  bool inside = false;
  bool block = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "      - name: The night") inside = true;
    if (!inside) continue;
    if (block && !line.starts_with("          ")) break;
    if (block) script += line.substr(10) + "\n";
    block = block || line == "        run: |";
  }
  return script;
}

std::string scenario_text(const std::string& name,
                          const std::string& lines,
                          const std::string& memory) {
  return "version: 1\nscenario: " + name +
         "\nkind: training\nmodel: {use: toy}\ntraining: {seq_len: 16, data: {text: "
         "[../corpus.txt]}}\nchecks: [process_clean]\nbudget: {seconds: 60, cores: 1}\n"
         "requires: {memory_gib: " +
         memory + "}\n" + lines;
}

class NightTest : public testing::Test {
 protected:
  NightTest() {
    set("a", "");
    set("b", "axes: {model.w: [8, 16]}\n");
    set("needs_cards", "profiles: {gpu: {requires: {gpus: 1}}}\n");
    program_.folder().write("share/nsa-harness/corpus.txt", std::string(1000, 'a'));
    program_.set_mood("counts");
    // The launcher, as far as a night needs it: the checkout is this folder.
    const std::string launcher = program_.folder().write(
        "checkout/nsa-harness",
        "#!/bin/sh\nshift\necho $$ > \"$HOME/pid\"\nexec \"$HOME/bin/nsa-harness\" \"$@\"\n");
    chmod(launcher.c_str(), 0755);
    program_.folder().write("step.sh", step_of_workflow());
    fs::create_directories(program_.folder() / "temp");
  }

  void set(const std::string& name,
           const std::string& lines,
           const std::string& memory = "0.1") const {
    program_.folder().write("share/nsa-harness/scenarios/" + name + ".yaml",
                            scenario_text(name, lines, memory));
  }

  struct NightResult {
    int exit_code = -1;
    std::string out;
    std::string err;
    std::string summary;
  };

  // `around`: what a shell does with the step, "$step".
  [[nodiscard]] NightResult night(const std::string& around = "bash -eo pipefail \"$step\"",
                                  const std::string& budget = "3h") const {
    const fakes::TempFolder& folder = program_.folder();
    fs::remove(folder / "summary");
    const auto result =
        harness::cli::run_command({"env",
                                   "-u",
                                   "NSA_HARNESS_TREE",
                                   "-u",
                                   "NSA_HARNESS_DB",
                                   "-u",
                                   "XDG_DATA_HOME",
                                   "HOME=" + folder.path(),
                                   "BUDGET=" + budget,
                                   "CARDS=0",
                                   "GITHUB_STEP_SUMMARY=" + (folder / "summary"),
                                   "RUNNER_TEMP=" + (folder / "temp"),
                                   "step=" + (folder / "step.sh"),
                                   "bash",
                                   "-c",
                                   "cd \"$HOME/checkout\" && { " + around + "; } 2>\"$HOME/err\""},
                                  150'000);
    return {result.exit_code, result.out, text_of(folder / "err"), text_of(folder / "summary")};
  }

  [[nodiscard]] ProgramResult on_nights(std::vector<std::string> words) const {
    words.insert(words.end(), {"--db", database()});
    return program_.run(words);
  }

  [[nodiscard]] std::string database() const {
    return program_.folder() / ".local/share/nsa-harness/runs.db";
  }
  fakes::Program program_;
};

// As soon as a case is under way, the power goes.
constexpr const char* kDies =
    "rm -f \"$HOME/pid\"; bash -eo pipefail \"$step\" & "
    "for i in $(seq 600); do "
    "grep -l hello \"$HOME\"/.local/share/nsa-harness/runs/\"$(ls -t "
    "\"$HOME\"/.local/share/nsa-harness/runs | head -1)\"/*/events.jsonl >/dev/null 2>&1 && "
    "[ -s \"$HOME/pid\" ] && kill -9 \"$(cat \"$HOME/pid\")\" && break; sleep 0.05; done; wait";

TEST_F(NightTest, HealthyThenARegressionThenAMachineThatDiesThenWellAgain) {
  const NightResult healthy = night();
  ASSERT_EQ(healthy.exit_code, 0) << healthy.out << healthy.err;
  EXPECT_THAT(healthy.summary, StartsWith("# CONDITIONAL GO: nothing failed, but 1 of 5 cases"));
  EXPECT_THAT(healthy.summary, HasSubstr("needs 1 GPUs, this machine has 0"));
  EXPECT_THAT(healthy.summary, HasSubstr("this is the first night that ended"));
  EXPECT_THAT(healthy.summary, Not(HasSubstr("## Alarms")));
  EXPECT_EQ(text_of(program_.folder() / "temp/report.md"), healthy.summary);

  set("a", "expect: {outcome: CRASH}\n");  // tampered with: it is the same case, judged otherwise
  const NightResult worse = night();
  EXPECT_EQ(worse.exit_code, 1) << worse.out << worse.err;
  const std::string screen = first_screen(worse.summary);
  EXPECT_THAT(screen, StartsWith("# NO-GO: 1 of 5 cases failed"));
  EXPECT_THAT(screen,
              HasSubstr("| Against the previous night | **1 newly failing**; exact values "
                        "equal (run "));
  EXPECT_THAT(screen, HasSubstr("1. **FAIL** a"));
  EXPECT_THAT(worse.summary, HasSubstr("| newly failing | a | PASS | FAIL |"));
  EXPECT_THAT(worse.summary, HasSubstr("no time was judged."));
  EXPECT_THAT(screen, HasSubstr("/scenarios/a.yaml --profile base"));

  set("a", "");
  program_.set_mood("hang");
  const NightResult died = night(kDies);
  EXPECT_THAT(died.summary, StartsWith("# NO-GO: the night did not get as far as a report"));

  program_.set_mood("counts");
  const NightResult again = night();
  EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_THAT(first_screen(again.summary), StartsWith("# CONDITIONAL GO: nothing failed"));
  EXPECT_THAT(first_screen(again.summary), HasSubstr("## Alarms\n\n- **NIGHT LOST**"));
  EXPECT_THAT(first_screen(again.summary),
              HasSubstr(" never ended: 4 of 5 cases were not judged."));
  EXPECT_THAT(first_screen(again.summary), HasSubstr("**1 newly passing**"));
  EXPECT_THAT(again.summary, HasSubstr("| newly passing | a | FAIL | PASS |"));

  // All four are of one night: what the last one found of each case counts, and the dead run does not.
  const ProgramResult since = on_nights({"report", "--since", "36h"});
  EXPECT_EQ(since.exit_code, 0);
  EXPECT_THAT(since.out, StartsWith("# CONDITIONAL GO: nothing failed, but 1 of 5 cases"));
}

// The worker of this program knows no such kind: the controller runs it itself.
TEST_F(NightTest, ACommandIsACaseOfTheNight) {
  program_.folder().write("share/nsa-harness/scenarios/says_hello.yaml",
                          "version: 1\nscenario: says_hello\nkind: command\n"
                          "command: {argv: [echo, hello]}\nchecks: [process_clean]\n"
                          "budget: {seconds: 60, cores: 1}\nrequires: {memory_gib: 0.1}\n");
  const NightResult with = night();
  EXPECT_EQ(with.exit_code, 0) << with.out << with.err;
  EXPECT_THAT(with.out, HasSubstr("PASS          says_hello"));
}

TEST_F(NightTest, ExactValuesAreComparedAndTold) {
  ASSERT_EQ(night().exit_code, 0);
  program_.set_mood("counts FAKE_COUNT=101");
  const NightResult more = night();
  EXPECT_EQ(more.exit_code, 0) << "told, not judged: nobody said which number is wanted";
  EXPECT_THAT(first_screen(more.summary), HasSubstr("**4 of 4 exact values differ**"));
  EXPECT_THAT(more.summary, HasSubstr("| a | operators | 100 | 101 | +1 % |"));
  EXPECT_EQ(on_nights({"compare", "1", "2"}).exit_code, 1);
  EXPECT_EQ(on_nights({"compare", "1", "1"}).exit_code, 0);
  const ProgramResult json = on_nights({"compare", "1", "2", "--json"});
  const auto object = nlohmann::json::parse(json.out);
  EXPECT_EQ(object.at("values").size(), 4U);
  EXPECT_EQ(object.at("values_compared"), 4);
  EXPECT_EQ(object.at("same"), 5);
  EXPECT_EQ(on_nights({"compare", "1", "77"}).exit_code, 3);
}

TEST_F(NightTest, TheBudgetLeavesOutWhatDoesNotFitAndSaysSo) {
  ASSERT_EQ(night().exit_code, 0);
  set("late", "");
  set("b", "axes: {model.w: [8, 16, 24]}\n");
  // Known to take less than a second each; of the two others a quarter of their 60 seconds must be left.
  const NightResult cut = night("bash -eo pipefail \"$step\"", "0.2m");
  EXPECT_EQ(cut.exit_code, 0) << cut.out << cut.err;
  EXPECT_THAT(cut.summary, HasSubstr("the night's budget of 0.2 min did not suffice for it"));
  EXPECT_THAT(cut.out, HasSubstr("SKIP          late"));
  EXPECT_THAT(cut.out, HasSubstr("SKIP          b[model.w=24]"));
  EXPECT_THAT(cut.out, HasSubstr("PASS          a "));
  EXPECT_THAT(cut.summary, Not(HasSubstr("## Alarms"))) << "neither was judged the night before";
  fs::remove(program_.share() + "/scenarios/a.yaml");
  const NightResult nothing = night("bash -eo pipefail \"$step\"", "0.02m");
  EXPECT_THAT(nothing.summary, HasSubstr("**CELL MISSING**"));
  EXPECT_THAT(nothing.summary, HasSubstr("no scenario has it any more (a)"));
}

TEST_F(NightTest, WhatTheMachineLostIsAnErrorUntilItIsAccepted) {
  ASSERT_EQ(night().exit_code, 0);
  set("a", "", "1000000");
  for (int i = 0; i < 2; ++i) {  // not only in the first night after it
    const NightResult lost = night();
    EXPECT_EQ(lost.exit_code, 6) << lost.out << lost.err;
    EXPECT_THAT(lost.summary, StartsWith("# NO-GO: 1 of 5 cases failed or could not be run"));
    EXPECT_THAT(lost.summary, HasSubstr("this machine lost what it had in run "));
  }
  const ProgramResult accepted = on_nights({"nightly", "--accept-machine"});
  EXPECT_EQ(accepted.exit_code, 0) << accepted.out << accepted.err;
  EXPECT_THAT(accepted.out, HasSubstr("needs 1e+06 GiB of memory"));
  EXPECT_EQ(night().exit_code, 0) << "what was accepted stays accepted";
}

TEST_F(NightTest, AMachineThatIsNotFitRunsNothing) {
  const ProgramResult cards =
      on_nights({"nightly", "--cards", "1", "--summary", program_.folder() / "s"});
  EXPECT_EQ(cards.exit_code, 6) << cards.err;
  EXPECT_THAT(cards.out, StartsWith("# NO-GO: this machine is not fit for a night"));
  EXPECT_THAT(cards.out, HasSubstr("this machine has 0 that this build can use"));
  EXPECT_EQ(text_of(program_.folder() / "s"), cards.out);
  EXPECT_FALSE(fs::exists(program_.runs()));
  program_.set_source_hash("other");
  EXPECT_EQ(on_nights({"nightly"}).exit_code, 6);
  EXPECT_FALSE(fs::exists(program_.runs()));
}

TEST_F(NightTest, NothingIsWrittenIntoTheCheckout) {
  program_.folder().write("share/nsa-harness/nsa-harness", "#!/bin/sh\necho x\n");
  for (const char* option : {"--db", "--out"}) {
    const ProgramResult refused = program_.run({"nightly", option, program_.share() + "/n.db"});
    EXPECT_EQ(refused.exit_code, 3) << refused.out << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("which lies in the checkout"));
  }
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"nightly", "--budget", "soon"},
                                             {"nightly", "--retain", "x"},
                                             {"nightly", "--shard", "3/2"}}) {
    EXPECT_EQ(program_.run(words).exit_code, 3) << words.back();
  }
}

TEST_F(NightTest, ShardsTogetherAreTheNight) {
  std::size_t cases = 0;
  for (const char* shard : {"1/2", "2/2"}) {
    const ProgramResult part = on_nights({"nightly", "--shard", shard});
    if (part.exit_code == 3) continue;  // so few cases may leave a shard without any
    EXPECT_EQ(part.exit_code, 0) << part.out << part.err;
    const auto store = harness::Store::open_read_only(database());
    cases += store->cases(store->last_run()->id).size();
    EXPECT_EQ(store->last_run()->option("shard"), shard);
  }
  EXPECT_EQ(cases, 5U);
}

}  // namespace
