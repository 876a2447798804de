// What a run leaves behind, and that nothing makes it worse: judging again, a lost database, a full disk, deleting.
#include <SQLiteCpp/SQLiteCpp.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cli/machine/machine.h"
#include "harness/run/record/run_folder.h"
#include "harness/store/run_files.h"
#include "harness/store/run_hash.h"
#include "harness/store/verdict_log.h"
#include "nsa/base/file.h"
#include "tests/cli/program.h"
#include "tests/fakes/where.h"

namespace {

namespace fs = std::filesystem;
using fakes::ProgramResult;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kTwoPasses = "[process_clean, causal]";

std::string text_of(const fs::path& path) {
  return nsa::read_file(path, 1 << 24);
}

class RecordTest : public testing::Test {
 protected:
  // A run of one case whose verdict needs the files that its rank writes. Gives its folder.
  std::string run_two_passes(const std::vector<std::string>& words = {}) {
    program_.set_mood("two_passes");
    std::vector<std::string> all = {
        "run", program_.scenario("parallel: {ranks: 1}\n", kTwoPasses), "--quiet"};
    all.insert(all.end(), words.begin(), words.end());
    const ProgramResult result = program_.run(all);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return fs::path(result.out.substr(0, result.out.size() - 1)).parent_path();
  }
  [[nodiscard]] static std::string tensors_of(const std::string& run) {
    return run + "/01_s/rank_0/step_1/attention_layer_0.safetensors";
  }
  [[nodiscard]] std::string summary() const {
    return program_.run({"report", "--format", "summary"}).out;
  }

  fakes::Program program_;
};

// The report's own advice turned GO into NO-GO: what passed had lost its tensors.
TEST_F(RecordTest, JudgingWhatWasPrunedLeavesTheRecordAsItIs) {
  const std::string run = run_two_passes();
  ASSERT_FALSE(fs::exists(tensors_of(run))) << "a passing case keeps no tensors";
  const std::string before = summary();
  const ProgramResult judged = program_.run({"judge"});
  EXPECT_EQ(judged.exit_code, 0) << judged.out << judged.err;
  EXPECT_THAT(judged.out, StartsWith("PASS"));
  EXPECT_THAT(judged.out,
              HasSubstr("its earlier judgement stays, since 2 files of its ranks are gone"));
  EXPECT_THAT(judged.out, HasSubstr("INCONCLUSIVE, causal: "));
  EXPECT_EQ(json::parse(program_.run({"report", "--format", "json"}).out).at("decision"), "GO");
  const ProgramResult next =
      program_.run({"run", program_.scenario("parallel: {ranks: 1}\n", kTwoPasses)});
  EXPECT_EQ(next.exit_code, 0);
  EXPECT_THAT(program_.run({"report"}).out, Not(HasSubstr("| fixed |")));
}

TEST_F(RecordTest, JudgingWhatIsAllThereIsANewJudgement) {
  const std::string run = run_two_passes({"--keep"});
  ASSERT_TRUE(fs::exists(tensors_of(run)));
  const ProgramResult judged = program_.run({"judge", "last", "--json"});
  EXPECT_EQ(judged.exit_code, 0) << judged.err;
  const json one = json::parse(judged.out).at("cases").at(0);
  EXPECT_EQ(one.at("outcome"), "PASS");
  EXPECT_EQ(one.at("judged_again").at("whole"), true);
  const harness::PlannedRun planned = harness::read_run_file(run);
  EXPECT_EQ(harness::read_verdict_log(planned.run, planned.cases.at(0)).size(), 2U);
}

TEST_F(RecordTest, AnAlteredFileIsNoEvidence) {
  const std::string run = run_two_passes({"--keep"});
  std::fstream file(tensors_of(run), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\1');  // of the same length
  file.close();
  const ProgramResult judged = program_.run({"judge"});
  EXPECT_EQ(judged.exit_code, 0) << "the judgement that had the file as it was stays";
  EXPECT_THAT(judged.out, HasSubstr("files of its ranks are not what was recorded"));
  EXPECT_THAT(judged.out,
              HasSubstr("rank_0/step_1/attention_layer_0.safetensors) is not what was recorded: "
                        "another hash"));
}

// The exit code told was that of the run as it had ended.
TEST_F(RecordTest, JudgeTellsItsOwnExitCode) {
  program_.set_mood("two_passes");
  const ProgramResult interrupted = program_.run(
      {"run", program_.scenario("parallel: {ranks: 1}\n", "[process_clean, finite]"), "--quiet"});
  ASSERT_EQ(interrupted.exit_code, 2);
  const ProgramResult judged = program_.run({"judge", "last", "--json"});
  EXPECT_EQ(json::parse(judged.out).at("exit"), judged.exit_code);
  EXPECT_EQ(judged.exit_code, 2);
}

TEST_F(RecordTest, AnAlteredLogIsNotJudged) {
  const std::string run = run_two_passes({"--keep"});
  fs::remove(run + "/01_s/" + harness::kPackedEventsFile);
  std::ofstream(run + "/01_s/" + harness::kEventsFile) << "";
  const ProgramResult judged = program_.run({"judge"});
  EXPECT_EQ(judged.exit_code, 6) << judged.out << judged.err;
  EXPECT_THAT(judged.err, HasSubstr("CANNOT JUDGE s: "));
  EXPECT_THAT(judged.err, HasSubstr("altered"));
  EXPECT_EQ(json::parse(program_.run({"report", "--format", "json"}).out).at("decision"), "GO");
}

TEST_F(RecordTest, ALostDatabaseComesBackWithItsVerdicts) {
  const std::string run = run_two_passes();
  const std::string before = program_.run({"report"}).out;
  fs::remove_all(fs::path(program_.database()));
  for (const char* beside : {"-wal", "-shm"}) fs::remove(program_.database() + beside);
  const ProgramResult rebuilt = program_.run({"db", "rebuild", run});
  EXPECT_EQ(rebuilt.exit_code, 0) << rebuilt.err;
  EXPECT_THAT(rebuilt.out, Not(HasSubstr("judge")));
  EXPECT_EQ(program_.run({"report"}).out, before) << "the same report, byte for byte";
  const ProgramResult again = program_.run({"db", "rebuild", run});
  EXPECT_EQ(again.exit_code, 3);
  EXPECT_THAT(again.err, HasSubstr("has this run already"));
  EXPECT_EQ(program_.run({"db", "check"}).exit_code, 0);
}

TEST_F(RecordTest, NothingIsDeletedBeforeItsVerdictIsStored) {
  program_.set_mood("two_passes");
  // The folder of the case is taken away from the verdicts by a folder of their name.
  const std::string worker = program_.folder() / "bin/nsa-harness-worker";
  std::ofstream(worker) << "#!/bin/sh\nfor word in \"$@\"; do\n"
                           "  [ \"$last\" = --folder ] && mkdir -p \"$word/verdicts.jsonl\"\n"
                           "  last=$word\ndone\n"
                        << "FAKE_MOOD=two_passes exec \"" << fakes::programs()
                        << "/fake_rank\" \"$@\"\n";
  const ProgramResult result =
      program_.run({"run", program_.scenario("parallel: {ranks: 1}\n", kTwoPasses)});
  EXPECT_EQ(result.exit_code, 5) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("CANNOT RECORD, this run is incomplete: "));
  const std::string run = fs::directory_iterator(program_.runs())->path();
  EXPECT_TRUE(fs::exists(tensors_of(run)));
}

TEST_F(RecordTest, ARankCannotHaveTheRecordDeleted) {
  program_.set_mood("names_others");
  const ProgramResult result = program_.run({"run", program_.scenario(), "--quiet"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  const std::string run = fs::directory_iterator(program_.runs())->path();
  for (const char* file : {"01_s/case.json", "01_s/verdicts.jsonl", "run.json", "end.json"}) {
    EXPECT_TRUE(fs::exists(run + "/" + file)) << file;
  }
  EXPECT_TRUE(harness::has_event_log(run + "/01_s"));
  int rejected = 0;
  (void)harness::read_event_log(run + "/01_s", [&](const harness::Event& event) {
    rejected += event.kind == harness::kRejectedKind ? 1 : 0;
  });
  EXPECT_EQ(rejected, 2 * 5) << "of two ranks";
}

TEST_F(RecordTest, AFullDiskIsNotBlamedOnTheRank) {
  for (const char* mood : {"disk_full", "quota_full"}) {
    SCOPED_TRACE(mood);
    program_.set_mood(mood);
    const ProgramResult result = program_.run({"run", program_.scenario()});
    EXPECT_EQ(result.exit_code, 6) << result.out << result.err;
    EXPECT_THAT(result.out, StartsWith("ERROR"));
    EXPECT_THAT(result.out, HasSubstr("the disk is full (rank "));
    EXPECT_THAT(program_.run({"report"}).out, Not(HasSubstr("**CRASH.EXCEPTION")));
  }
}

// The loader speaks before the worker begins: without LibTorch every case was a crash of the model.
TEST_F(RecordTest, AWorkerThatCannotStartIsNoFailureOfTheModel) {
  const std::string worker = program_.folder().write(
      "bin/nsa-harness-worker",
      "#!/bin/sh\necho \"$0: error while loading shared libraries: libtorch.so: cannot open shared "
      "object file\" >&2\nexit 127\n");
  const ProgramResult result = program_.run({"run", program_.scenario()});
  EXPECT_EQ(result.exit_code, 6) << result.out << result.err;
  EXPECT_THAT(result.out, StartsWith("ERROR"));
  EXPECT_THAT(result.out,
              HasSubstr("the worker cannot start (error while loading shared libraries: "
                        "libtorch.so: cannot open shared object file)"));
  EXPECT_THAT(program_.run({"report"}).out, Not(HasSubstr("CRASH")));
}

// What a rank writes itself is no word of the loader.
TEST_F(RecordTest, ARankThatSpeaksOfLibrariesIsStillAFailure) {
  program_.folder().write("bin/nsa-harness-worker",
                          "#!/bin/sh\necho \"rank: error while loading shared libraries: x\" "
                          ">&2\nexit 127\n");
  EXPECT_THAT(program_.run({"run", program_.scenario()}).out, StartsWith("CRASH"));
}

// Cases of one text share one copy, as private as its source.
TEST_F(RecordTest, TheTextIsKeptOnceARun) {
  fs::permissions(program_.folder() / "corpus.txt", static_cast<fs::perms>(0600));
  ASSERT_EQ(program_.run({"run", program_.scenario("axes: {model.w: [8, 16, 24]}\n"), "--quiet"})
                .exit_code,
            0);
  const std::string run = fs::directory_iterator(program_.runs())->path();
  std::vector<std::string> texts;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    if (entry.path().extension() == ".txt") texts.push_back(entry.path());
  }
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(static_cast<int>(fs::status(texts[0]).permissions()), 0400);
}

// What lies in the tree (last night's report, an editor's file) is no data: the same build trains on the same bytes.
TEST_F(RecordTest, TextThatNobodyNamedIsTheOneOfTheBuild) {
  const std::string text(1000, 'b');
  program_.folder().write("share/nsa-harness/corpus.txt", text);
  program_.folder().write("share/nsa-harness/report.md", std::string(1000, 's'));
  const std::string file =
      program_.folder().write("plain.yaml",
                              "version: 1\nscenario: plain\nkind: training\nmodel: {use: toy}\n"
                              "training: {seq_len: 16}\nchecks: [process_clean]\n");
  const ProgramResult result = program_.run({"run", file});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> kept;
  for (const auto& entry : fs::recursive_directory_iterator(program_.runs())) {
    if (entry.path().parent_path().filename() == "texts") kept.push_back(text_of(entry.path()));
  }
  EXPECT_THAT(kept, testing::ElementsAre(text));
}

TEST(BuiltText, HoldsTheSourcesThatEveryBuildCompiles) {
  const std::string text = text_of(fs::path(fakes::programs()) / "../share/nsa-harness/corpus.txt");
  for (const char* file : {"/harness/cli/paths.cpp", "/oracles/attention/attend.cpp"}) {
    EXPECT_THAT(text, HasSubstr(text_of(fakes::tree() + file))) << file;
  }
  EXPECT_GT(text.size(), 1'000'000U);
}

TEST_F(RecordTest, PruneDropsFoldersAndReportsGoOn) {
  const std::string run = run_two_passes();
  EXPECT_EQ(program_.run({"db", "prune"}).exit_code, 3) << "how long is for the user to say";
  EXPECT_EQ(program_.run({"db", "prune", "--keep", "1h"}).exit_code, 3);
  EXPECT_THAT(program_.run({"db", "prune", "--keep", "90d"}).out, HasSubstr("0 MB freed"));
  EXPECT_TRUE(fs::exists(run));
  const std::string before = program_.run({"report"}).out;
  {
    SQLite::Database database(program_.database(), SQLite::OPEN_READWRITE);
    database.exec("UPDATE run SET started_ms = started_ms - 100 * 86400000");
    harness::seal_run(database, 1);
  }
  EXPECT_THAT(program_.run({"db", "prune", "--keep", "90d"}).out, StartsWith("dropped the folder"));
  EXPECT_FALSE(fs::exists(run));
  const ProgramResult judged = program_.run({"judge"});
  EXPECT_EQ(judged.exit_code, 0) << judged.err;
  EXPECT_THAT(judged.out, HasSubstr("its earlier judgement stays: the run's folder was dropped"));
  EXPECT_THAT(program_.run({"list", "--db"}).out, HasSubstr("folder dropped"));
  EXPECT_EQ(program_.run({"report"}).exit_code, 0);
  EXPECT_EQ(program_.run({"db", "vacuum"}).exit_code, 0);
}

// ---- the database of somebody else, and a disk that takes nothing ---------------------------------------------------

// As a user who may not write there: tests often run as one who may do everything.
ProgramResult run_unprivileged(const fakes::Program& program,
                               const std::vector<std::string>& words) {
  std::vector<std::string> argv = {"env", "-u", "NSA_HARNESS_DB", "HOME=/nonexistent"};
  if (geteuid() == 0) {
    argv.insert(argv.begin(), {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
  }
  argv.push_back(program.folder() / "bin/nsa-harness");
  argv.insert(argv.end(), words.begin(), words.end());
  const auto result = harness::cli::run_command(argv, 120'000);
  return {result.exit_code, result.out, ""};
}

TEST_F(RecordTest, ReadingNeedsNoRightToWrite) {
  ASSERT_EQ(program_.run({"run", program_.scenario(), "--quiet"}).exit_code, 0);
  const std::string before = program_.run({"report"}).out;
  for (const auto& entry : fs::recursive_directory_iterator(program_.folder().path())) {
    fs::permissions(entry.path(),
                    fs::perms::others_write | fs::perms::group_write | fs::perms::owner_write,
                    fs::perm_options::remove);
    fs::permissions(entry.path(), fs::perms::others_read, fs::perm_options::add);
    if (entry.is_directory())
      fs::permissions(entry.path(), fs::perms::others_exec, fs::perm_options::add);
  }
  fs::permissions(program_.folder().path(), static_cast<fs::perms>(0555));
  const ProgramResult report = run_unprivileged(program_, {"report", "--db", program_.database()});
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.out, before);
  EXPECT_EQ(run_unprivileged(program_, {"list", "--db", program_.database()}).exit_code, 0);
  for (const auto& entry : fs::recursive_directory_iterator(program_.folder().path())) {
    fs::permissions(entry.path(), fs::perms::owner_all, fs::perm_options::add);
  }
}

TEST_F(RecordTest, ALostStdoutIsToldAndChangesNothing) {
  const std::string program = program_.folder() / "bin/nsa-harness";
  const auto run = [&](const std::string& redirection) {
    const auto result = harness::cli::run_command(
        {"env",
         "-u",
         "NSA_HARNESS_DB",
         "-u",
         "XDG_DATA_HOME",
         "-u",
         "NSA_HARNESS_TREE",
         "HOME=" + program_.folder().path(),
         "bash",
         "-c",
         "exec 3>&1; " + program + " run " + program_.scenario() + " 2>&3 " + redirection +
             "; echo \"exit ${PIPESTATUS[0]}\" >&3"},
        120'000);
    return result.out;
  };
  for (const char* redirection : {">/dev/full", "| true", ">&-"}) {
    const std::string told = run(redirection);
    EXPECT_THAT(told, HasSubstr("stdout was lost; the run is stored, its exit code is 0"))
        << redirection;
    EXPECT_THAT(told, HasSubstr("exit 0")) << redirection;
  }
  const auto report = harness::cli::run_command(
      {"env", "HOME=" + program_.folder().path(), "bash", "-c", program + " report >/dev/full"},
      120'000);
  EXPECT_EQ(report.exit_code, 5) << "a report that nobody got";
}

// ---- what stands in the end of a run ----------------------------------------------------------------------------------

TEST_F(RecordTest, ARunEndsWithItsDecisionAndWhatFailed) {
  program_.set_mood("breaks_with_layers FAKE_BREAKS=''");
  const ProgramResult result =
      program_.run({"run", program_.scenario("axes: {model.w: [8, 16]}\n")});
  EXPECT_EQ(result.exit_code, 1);
  const std::size_t end = result.out.find("\nNO-GO: 2 CRASH\n");
  ASSERT_NE(end, std::string::npos) << result.out;
  EXPECT_NE(result.out.find("CRASH         s[model.w=8]", end), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("CRASH         s[model.w=16]", end), std::string::npos);
}

TEST_F(RecordTest, StoredRunsAreListed) {
  EXPECT_EQ(program_.run({"list", "--db", program_.folder() / "none.db"}).exit_code, 3);
  (void)run_two_passes();
  program_.set_mood("crash");
  (void)program_.run({"run", program_.scenario()});
  const std::string lines = program_.run({"list", "--db"}).out;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
  EXPECT_THAT(lines, StartsWith("1  "));
  EXPECT_THAT(lines, HasSubstr("exit 0  1 PASS"));
  EXPECT_THAT(lines, HasSubstr("exit 1  1 CRASH"));
  const json object =
      json::parse(program_.run({"list", "--db", program_.database(), "--json"}).out);
  EXPECT_EQ(object.at("runs").at(1).at("outcomes").at("CRASH"), 1);
}

TEST_F(RecordTest, HelpVersionAndCompletionAsPeopleTypeThem) {
  EXPECT_EQ(program_.run({"help"}).out, program_.run({"--help"}).out);
  EXPECT_EQ(program_.run({"help", "db"}).out, program_.run({"db", "--help"}).out);
  EXPECT_EQ(program_.run({"help", "rum"}).exit_code, 3);
  EXPECT_THAT(program_.run({"--version"}).out, StartsWith("nsa-harness "));
  const std::string script = program_.folder().write("c.sh", program_.run({"completion"}).out);
  const auto complete = [&](const std::string& words) {
    const auto result = harness::cli::run_command(
        {"bash",
         "-c",
         "source " + script + "; COMP_WORDS=(nsa-harness " + words +
             "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _nsa_harness; echo "
             "\"${COMPREPLY[*]}\""});
    return result.out;
  };
  EXPECT_EQ(complete("ru"), "run\n");
  EXPECT_EQ(complete("run --pro"), "--profile\n");
  EXPECT_EQ(complete("db pr"), "prune\n");
  EXPECT_EQ(complete("db prune --k"), "--keep\n");
}

TEST_F(RecordTest, CardsThatVanishedAreTold) {
  if (!harness::cli::look_at_machine().gpus.empty()) GTEST_SKIP() << "this machine has a card";
  const ProgramResult result = program_.run(
      {"run",
       program_.scenario("profiles: {gpu: {parallel: {device: cuda}, requires: {gpus: 2}}}\n")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1 scenario runs with the values for a machine without cards"));
}

}  // namespace
