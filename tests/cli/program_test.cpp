// The program as people meet it: words in, lines and an exit code out.
#include "tests/cli/program.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cli/verbs.h"
#include "harness/store/store.h"
#include "tests/fakes/where.h"

namespace {

namespace fs = std::filesystem;
using fakes::ProgramResult;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Words = std::vector<std::string>;

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const std::size_t start = text.rfind('\n', end);
  return text.substr(start == std::string::npos ? 0 : start + 1,
                     end - (start == std::string::npos ? -1 : start));
}

std::size_t folders_in(const std::string& path) {
  std::error_code error;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(path, error), fs::directory_iterator()));
}

class ProgramTest : public testing::Test {
 protected:
  // Exit 3, nothing on stdout, one line on stderr that holds `message`, and nothing left behind.
  void expect_refused(const Words& words, const std::string& message) {
    const ProgramResult result = program_.run(words);
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_THAT(result.err, StartsWith("nsa-harness: "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(folders_in(program_.runs()), 0U);
  }
  fakes::Program program_;
};

// Some parents ignore SIGCHLD, and what they start inherits that: nobody could learn how a rank or a command ended.
TEST_F(ProgramTest, AParentThatIgnoresItsChildrenChangesNoVerdict) {
  const std::string program = program_.folder() / "bin/nsa-harness";
  const auto below = [&](Words words) {
    Words argv = {"env", "-u", "NSA_HARNESS_DB", "HOME=" + program_.folder().path(), "timeout"};
    argv.insert(argv.end(), {"30", "env", "--ignore-signal=CHLD", program, "run", "--quiet"});
    argv.insert(argv.end(), words.begin(), words.end());
    return harness::cli::run_command(argv, 40'000).exit_code;
  };
  EXPECT_EQ(below({program_.scenario()}), 0);
  program_.set_mood("exit7");
  EXPECT_EQ(below({program_.scenario()}), 1);
  EXPECT_EQ(below({"--", "true"}), 0);
  EXPECT_EQ(below({"--", "false"}), 1);
}

TEST_F(ProgramTest, APassingRunEndsWithTheReportsPath) {
  const ProgramResult result = program_.run({"run", program_.scenario()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("PASS          s  "));
  const std::string report = last_line(result.out);
  EXPECT_THAT(report, EndsWith("/report.md"));
  EXPECT_TRUE(fs::is_regular_file(report)) << report;
  EXPECT_TRUE(fs::is_regular_file(program_.database()));
  EXPECT_THAT(result.err, HasSubstr("[1/1] s 0 s | rank ")) << "where the ranks are";
  const ProgramResult quiet = program_.run({"run", program_.scenario(), "--quiet"});
  EXPECT_EQ(quiet.err, "");
  EXPECT_EQ(std::count(quiet.out.begin(), quiet.out.end(), '\n'), 1) << quiet.out;
}

TEST_F(ProgramTest, JsonIsOneObject) {
  const ProgramResult result = program_.run({"run", program_.scenario(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto object = nlohmann::json::parse(result.out);
  EXPECT_EQ(object.at("exit"), 0);
  EXPECT_EQ(object.at("cases").at(0).at("outcome"), "PASS");
  EXPECT_TRUE(fs::is_regular_file(object.at("report").get<std::string>()));
  program_.set_mood("crash");
  const ProgramResult crashed = program_.run({"run", program_.scenario(), "--json"});
  EXPECT_EQ(crashed.exit_code, 1);
  EXPECT_EQ(nlohmann::json::parse(crashed.out).at("exit"), 1);
}

TEST_F(ProgramTest, AFolderListsWhatLacksTheProfile) {
  const fs::path folder = fs::path(program_.scenario()).parent_path() / "nightly";
  fs::create_directory(folder);
  fs::copy_file(program_.scenario(), folder / "s.yaml");
  fs::copy_file(folder.parent_path() / "corpus.txt", folder / "corpus.txt");
  const std::string file = folder / "s.yaml";
  const ProgramResult result = program_.run({"run", folder.string(), "--profile", "gpu"});
  EXPECT_EQ(result.exit_code, 4) << result.err;  // nothing was judged
  EXPECT_THAT(result.out, HasSubstr("it has no profile gpu"));
  EXPECT_EQ(program_.run({"run", file, "--profile", "gpu"}).exit_code, 3) << "the file was named";
}

struct Ending {
  const char* mood;
  const char* lines;
  const char* checks;
  Words words;
  int exit_code;
  const char* word;
};

TEST_F(ProgramTest, ExitCodesTellWhatHappened) {
  const std::string gpus = "requires: {gpus: 1000}\n";
  const std::string profile = "profiles: {big: {requires: {gpus: 1000}}}\n";
  const std::vector<Ending> table = {
      {"crash", "", "[process_clean]", {}, 1, "CRASH"},
      {"exit7", "", "[process_clean]", {}, 1, "CRASH"},
      {"crash", "expect: {outcome: CRASH}\n", "[process_clean]", {}, 0, "PASS"},
      {"ok", "expect: {outcome: CRASH}\n", "[process_clean]", {}, 1, "FAIL"},
      {"ok", "", "[finite]", {}, 2, "INCONCLUSIVE"},
      {"ok", gpus.c_str(), "[process_clean]", {}, 4, "SKIP"},
      {"ok", profile.c_str(), "[process_clean]", {"--profile", "big"}, 6, "ERROR"},
      {"ok", profile.c_str(), "[process_clean]", {"--profile", "base"}, 0, "PASS"},
      {"ok", "", "[process_clean]", {"--set", "fault=same_data"}, 6, "ERROR"},
  };
  for (const Ending& row : table) {
    program_.set_mood(row.mood);
    Words words = {"run", program_.scenario(row.lines, row.checks)};
    words.insert(words.end(), row.words.begin(), row.words.end());
    const ProgramResult result = program_.run(words);
    EXPECT_EQ(result.exit_code, row.exit_code) << row.mood << row.lines << "\n"
                                               << result.out << result.err;
    EXPECT_THAT(result.out, StartsWith(row.word)) << row.lines;
    EXPECT_THAT(last_line(result.out), EndsWith("/report.md"));
  }
}

TEST_F(ProgramTest, ABisectionFindsTheLayersThatBreakTogether) {
  program_.set_mood("breaks_with_layers FAKE_BREAKS='1 4'");
  const std::string lines =
      "bisect: {over: parallel.checkpoint.layers}\nexpect: {outcome: CRASH, code: CRASH.SIGNAL, "
      "site: {layers: [1, 4]}}\n";
  Words words = {"run", program_.scenario(lines), "--set", "model.n_layers=6", "--json"};
  const ProgramResult found = program_.run(words);
  EXPECT_EQ(found.exit_code, 0) << found.out << found.err;
  const auto object = nlohmann::json::parse(found.out);
  EXPECT_EQ(object.at("bisect").at("minimal"), nlohmann::json({1, 4}));
  EXPECT_EQ(object.at("bisect").at("over"), "parallel.checkpoint.layers");
  EXPECT_EQ(object.at("bisect").at("conclusion"), "a minimal set that fails is [1, 4]");
  const std::size_t trials = object.at("bisect").at("trials");
  EXPECT_EQ(object.at("cases").size(), trials);
  EXPECT_EQ(object.at("cases").at(0).at("outcome"), "CRASH");
  EXPECT_EQ(object.at("cases").at(1).at("outcome"), "PASS");
  std::ifstream file(object.at("report").get<std::string>());
  std::stringstream report;
  report << file.rdbuf();
  EXPECT_THAT(report.str(), HasSubstr("## Bisection"));
  EXPECT_THAT(report.str(), HasSubstr("# GO: "));
  // Judged again, and from the folder alone: the same.
  EXPECT_EQ(program_.run({"judge"}).exit_code, 0);
  const std::string folder = fs::path(object.at("report").get<std::string>()).parent_path();
  const std::string other = program_.folder() / "other.db";
  const ProgramResult rebuilt = program_.run({"db", "rebuild", folder, "--db", other});
  ASSERT_EQ(rebuilt.exit_code, 0) << rebuilt.err;
  const auto judged =
      nlohmann::json::parse(program_.run({"judge", "last", "--db", other, "--json"}).out);
  EXPECT_EQ(judged.at("bisect"), object.at("bisect"));
  program_.set_mood("breaks_with_layers FAKE_BREAKS='2'");
  EXPECT_EQ(program_.run(words).exit_code, 1) << "another set than was expected";
  words[1] = program_.scenario("bisect: {over: parallel.checkpoint.layers}\n");
  EXPECT_EQ(program_.run(words).exit_code, 1) << "something breaks";
  program_.set_mood("ok");
  const ProgramResult healthy = program_.run(words);
  EXPECT_EQ(healthy.exit_code, 0) << healthy.out << healthy.err;
  EXPECT_EQ(nlohmann::json::parse(healthy.out).at("bisect").at("trials"), 1);
}

TEST_F(ProgramTest, AKillThatTheScenarioAskedForIsNoCrash) {
  const std::string file = program_.folder().write(
      "lives.yaml",
      "version: 1\nscenario: lives\nkind: training\nmodel: {use: toy}\n"
      "training: {steps: 4, seq_len: 16, data: {text: [corpus.txt]}}\n"
      "life: {save_every: 2, kill_step: 4, kill_phase: save}\nchecks: [process_clean, progress]\n");
  const Words words = {"run", file};
  program_.set_mood("stalls_in_save");
  const ProgramResult resumed = program_.run(words);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  EXPECT_THAT(resumed.out, StartsWith("PASS"));
  EXPECT_EQ(program_.run({"judge"}).exit_code, 0) << "from the database as well";
  program_.set_mood("ok");
  const ProgramResult never = program_.run({"run",
                                            file,
                                            "--set",
                                            "training.steps=1",
                                            "--set",
                                            "life.save_every=1",
                                            "--set",
                                            "life.kill_step=1"});
  EXPECT_EQ(never.exit_code, 6) << never.out << never.err;
  EXPECT_THAT(never.out, HasSubstr("the kill in step 1, phase save, never happened"));
  program_.set_mood("crash");
  EXPECT_EQ(program_.run(words).exit_code, 1);
}

TEST_F(ProgramTest, AKnownFailureIsNoFailureAndAKnownPassIs) {
  const auto known = [&](const std::string& until) {
    return program_.scenario(
        "axes: {model.w: [8, 16]}\nknown: [{when: {model.w: 8}, outcome: "
        "CRASH, because: it is so, until: " +
        until + "}]\n");
  };
  const ProgramResult xpass = program_.run({"run", known("2999-01-01")});
  EXPECT_EQ(xpass.exit_code, 1);
  EXPECT_THAT(xpass.out, StartsWith("XPASS"));
  EXPECT_THAT(xpass.out, HasSubstr("\nPASS"));
  program_.set_mood("crash");
  const ProgramResult xfail =
      program_.run({"run", known("2999-01-01"), "--only", "model.w=8", "--json"});
  EXPECT_EQ(xfail.exit_code, 2) << "an expected failure shows nothing that works";
  const auto one = nlohmann::json::parse(xfail.out).at("cases").at(0);
  EXPECT_EQ(one.at("outcome"), "XFAIL");
  EXPECT_THAT(one.at("reason").get<std::string>(), StartsWith("it is so (known until"));
  const ProgramResult expired = program_.run({"run", known("2020-01-01"), "--only", "model.w=8"});
  EXPECT_EQ(expired.exit_code, 1);
  EXPECT_THAT(expired.out, StartsWith("CRASH"));
  EXPECT_THAT(expired.err, HasSubstr("s.yaml:8: known failure expired on 2020-01-01"));
}

TEST_F(ProgramTest, InterruptedIsStoredAndSaysSo) {
  program_.set_mood("hang");
  const ProgramResult result =
      program_.run({"run", program_.scenario("axes: {model.w: [8, 16]}\n")}, "2");
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("interrupted"));
  EXPECT_THAT(last_line(result.out), EndsWith("/report.md"));
  EXPECT_EQ(program_.run({"run", program_.scenario()}, "2").exit_code, 5) << "in the last case";
}

// Cases that say what they take: as many at once as this machine has cores.
constexpr const char* kSharing =
    "budget: {seconds: 60, cores: 1}\nrequires: {memory_gib: 0.1}\naxes: {model.w: [8, 16, 24, 32, "
    "40, "
    "48, 56, 64, 72, 80]}\n";

TEST_F(ProgramTest, CasesSideBySideAreAllToldAndStored) {
  const ProgramResult result = program_.run({"run", program_.scenario(kSharing), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto told = nlohmann::json::parse(result.out);
  ASSERT_EQ(told.at("cases").size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) {
    const auto& one = told.at("cases").at(i);
    EXPECT_EQ(one.at("case"), "s[model.w=" + std::to_string(8 * (i + 1)) + "]");
    EXPECT_EQ(one.at("outcome"), "PASS");
    EXPECT_GT(one.at("seconds").get<double>(), 0.0);
  }
  EXPECT_EQ(program_.run({"judge", "last"}).exit_code, 0) << "all of their evidence is there";
  program_.set_mood("crash");
  const ProgramResult crashed = program_.run({"run", program_.scenario(kSharing), "--json"});
  EXPECT_EQ(crashed.exit_code, 1);
  const auto all_crashed = nlohmann::json::parse(crashed.out);
  ASSERT_EQ(all_crashed.at("cases").size(), 10U);
  for (const auto& one : all_crashed.at("cases")) EXPECT_EQ(one.at("outcome"), "CRASH");
}

TEST_F(ProgramTest, CasesSideBySideAreAllEndedWhenInterrupted) {
  program_.set_mood("hang");
  const ProgramResult result = program_.run({"run", program_.scenario(kSharing)}, "2");
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("of 10 cases were not run"));
  EXPECT_THAT(last_line(result.out), EndsWith("/report.md"));
}

TEST_F(ProgramTest, BadInputIsOneClearLine) {
  expect_refused({"run", program_.scenario("modle: 3\n")}, "s.yaml:7: key: found \"modle\"");
  expect_refused({"run", program_.scenario("seed: x\n")},
                 "s.yaml:7: seed: found \"x\", wanted a whole number");
  expect_refused({"run", program_.scenario("parallel: {ranks: 0}\n")},
                 "s.yaml:7: parallel.ranks: found 0");
  expect_refused({"run", program_.scenario("a: &a [x]\nb: [*a, *a]\n")},
                 "s.yaml:7: found an anchor");
  expect_refused({"run", program_.folder() / "none.yaml"}, "none.yaml: No such file");
  expect_refused({"run", program_.folder() / "bin"}, "found no scenario");
  expect_refused({"run", program_.scenario(), "--set", "model.ww=3"},
                 "--set model.ww=3: key of model");
  expect_refused({"run", program_.scenario(), "--set", "model"},
                 "--set: found \"model\", wanted path=value");
  expect_refused({"run", program_.scenario(), "--only", "a=b"}, "found no axes");
  expect_refused({"run", program_.scenario(), "--profile", "gpu"},
                 "--profile: found \"gpu\", wanted base");
  expect_refused({"run", program_.scenario(), "--seed", "1.5"}, "--seed: found \"1.5\"");
  expect_refused({"run", program_.scenario(), "--out", program_.folder() / "corpus.txt/x"},
                 "corpus.txt/x");
  const std::string garbage = program_.folder().write("garbage.db", std::string(5000, 'g'));
  expect_refused({"run", program_.scenario(), "--db", garbage, "--out", program_.runs()},
                 "garbage.db");
  EXPECT_EQ(fs::file_size(garbage), 5000U);
  expect_refused({"report", "--db", garbage}, "garbage.db");
  expect_refused({"judge", "last", "--db", program_.folder() / "none.db"}, "none.db");
  EXPECT_FALSE(fs::exists(program_.database()));
}

TEST_F(ProgramTest, BadWordsAreOneClearLine) {
  expect_refused({}, "subcommand");
  expect_refused({"rum"}, "verb: found \"rum\", wanted one of run, list, report");
  expect_refused({"run"}, "found no scenario, wanted files or -- COMMAND");
  expect_refused({"run", "--", "torchrum", "train.py"},
                 "-- COMMAND: found torchrum, wanted a program that PATH has");
  expect_refused({"run", "--", program_.scenario()}, "-- COMMAND: found ");
  expect_refused({"run", program_.scenario(), "--sett", "a=b"}, "--sett");
  expect_refused({"report", "--format", "pdf"}, "pdf");
}

// Each verb's options with a value, given an empty one, beside nothing else that would be refused first.
TEST_F(ProgramTest, EmptyWordsAreOneClearLine) {
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> verbs = {
      {{"run", program_.scenario()}, {"--out", "--db", "--profile", "--seed", "--set", "--only"}},
      {{"report"}, {"--out", "--html", "--db", "--since", "--verify"}},
      {{"nightly"}, {"--out", "--db", "--summary", "--report", "--scenarios", "--shard"}},
      {{"bundle", "last", "1"}, {"--out", "--db"}},
      {{"replay", "x.tar.zst"}, {"--out", "--db"}},
      {{"diagnose", "last"}, {"--out", "--db"}},
      {{"selftest"}, {"--out", "--db"}},
      {{"golden", "x.safetensors"}, {"--export"}},
      {{"compare", "1", "2"}, {"--db"}},
      {{"history", "x"}, {"--db"}},
      {{"judge"}, {"--db"}},
      {{"db", "export", "1"}, {"--out"}},
      {{"db", "check"}, {"--db"}},
      {{"baseline", "accept", "x", "--because", "y"}, {"--run", "--db"}},
      {{"bisect", "--commits", "HEAD~1", "HEAD", "--test", "true"}, {"--cache", "--repository"}}};
  for (const auto& [verb, options] : verbs) {
    for (const std::string& option : options) {
      std::vector<std::string> words = verb;
      words.insert(words.end(), {option, ""});
      expect_refused(words, option + ": found an empty word");
    }
  }
  expect_refused({"run", ""}, "found an empty word");
  EXPECT_FALSE(fs::exists(program_.database()));
}

TEST_F(ProgramTest, WithoutItsWorkerNothingIsRun) {
  fs::remove(program_.share() + "/manifest.json");
  expect_refused({"run", program_.scenario()}, "this installation has no worker");
  EXPECT_EQ(program_.run({"list", "--schema"}).exit_code, 0);
  EXPECT_EQ(program_.run({"version"}).exit_code, 0);
}

TEST_F(ProgramTest, AWorkerOfOtherSourcesNeverRuns) {
  program_.set_source_hash("beef");
  const ProgramResult result = program_.run({"run", program_.scenario()});
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.err, HasSubstr("stale build"));
  EXPECT_FALSE(fs::exists(program_.database()));
}

TEST_F(ProgramTest, DryRunRunsNothing) {
  const ProgramResult result =
      program_.run({"run", program_.scenario("axes: {model.w: [8, 16]}\n"), "--dry-run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("s[model.w=8]"), HasSubstr("s[model.w=16]"), HasSubstr("2 ranks on cpu")));
  EXPECT_FALSE(fs::exists(program_.database()));
  const auto object =
      nlohmann::json::parse(program_.run({"run", program_.scenario(), "--dry-run", "--json"}).out);
  EXPECT_EQ(object.at("cases").at(0).at("parameters"), 254'499);
}

TEST_F(ProgramTest, AnOldRunIsJudgedAndReportedAgain) {
  ASSERT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 0);
  const ProgramResult judged = program_.run({"judge"});
  EXPECT_EQ(judged.exit_code, 0) << judged.err;
  EXPECT_THAT(judged.out, StartsWith("PASS"));
  EXPECT_EQ(nlohmann::json::parse(program_.run({"judge", "last", "--json"}).out).at("cases").size(),
            1U);
  const auto store = harness::Store::open_read_only(program_.database());
  EXPECT_EQ(store->cases(store->last_run().value().id).at(0).judgements, 3);
  EXPECT_EQ(program_.run({"judge", "nonesuch"}).exit_code, 3);
  const ProgramResult report = program_.run({"report"});
  EXPECT_EQ(report.exit_code, 0) << report.err;
  EXPECT_THAT(report.out, StartsWith("# "));
  EXPECT_EQ(program_.run({"report", "--since", "today"}).exit_code, 0);
  EXPECT_EQ(program_.run({"report", "--since", "blue moon"}).exit_code, 3);
  const std::string file = program_.folder() / "r.md";
  EXPECT_EQ(program_.run({"report", "--out", file}).out, file + "\n");
  EXPECT_TRUE(fs::is_regular_file(file));
}

TEST_F(ProgramTest, AnEmptyRangeNamesTheLastRun) {
  ASSERT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 0);
  const ProgramResult result = program_.run({"report", "--since", "0h"});
  EXPECT_EQ(result.exit_code, 4) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("the last is "));
}

TEST_F(ProgramTest, TheFolderOfAllScenarios) {
  fs::copy_file(fs::path(fakes::programs()) / "../share/nsa-harness/corpus.txt",
                program_.share() + "/corpus.txt");
  fs::copy(
      fakes::tree() + "/scenarios", program_.share() + "/scenarios", fs::copy_options::recursive);
  const ProgramResult result =
      program_.run({"run", program_.share() + "/scenarios", "--dry-run", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GE(nlohmann::json::parse(result.out).at("cases").size(), 8U);
  const auto listed = nlohmann::json::parse(program_.run({"list", "--json"}).out);
  EXPECT_GE(listed.at("scenarios").size(), 8U);
  EXPECT_EQ(listed.at("faults").size(), fakes::manifest().faults.size());
}

TEST_F(ProgramTest, HelpOfEveryVerbShowsAnExampleOfIt) {
  for (const harness::cli::Verb& verb : harness::cli::verbs()) {
    const ProgramResult help = program_.run({verb.name, "--help"});
    EXPECT_EQ(help.exit_code, 0) << verb.name;
    EXPECT_THAT(help.out, HasSubstr(std::string("nsa-harness ") + verb.name)) << verb.name;
    EXPECT_THAT(verb.example, StartsWith(std::string("nsa-harness ") + verb.name));
  }
  EXPECT_THAT(program_.run({"--help"}).out, HasSubstr("Exit codes"));
}

TEST_F(ProgramTest, DoctorAnswersWithEveryFact) {
  const ProgramResult result = program_.run({"doctor", "--json"});
  EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 6) << result.err;
  const auto object = nlohmann::json::parse(result.out);
  EXPECT_EQ(object.at("exit"), result.exit_code);
  std::vector<std::string> names;
  for (const auto& fact : object.at("facts")) names.push_back(fact.at("name"));
  EXPECT_THAT(
      names,
      testing::IsSupersetOf({"cpu", "memory", "disk", "database", "gpu", "build", "worker"}));
  program_.set_source_hash("beef");
  EXPECT_EQ(program_.run({"doctor"}).exit_code, 6);
}

}  // namespace
