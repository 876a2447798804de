// The verb golden as people meet it, with a worker that gives what it is told to.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/golden_support.h"
#include "tests/cli/program.h"

namespace {

namespace fs = std::filesystem;
using fakes::golden_path;
using fakes::ProgramResult;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class GoldenProgram : public testing::Test {
 protected:
  // The worker does this; $2 is the file, $4 where the results go.
  void worker(const std::string& script) {
    const std::string path =
        program_.folder().write("bin/nsa-harness-worker", "#!/bin/sh\n" + script + "\n");
    chmod(path.c_str(), 0755);
  }
  // A worker whose results are those of a shipped file.
  void worker_like(const std::string& name) { worker("cp \"" + golden_path(name) + "\" \"$4\""); }

  // A shipped file with one output changed.
  std::string changed(const std::string& name, const std::string& tensor) {
    fakes::EditableFile file(golden_path(name));
    std::vector<double> values = file.get<double>(tensor);
    values[0] += 1.0;
    file.set(tensor, values);
    return file.write(program_.folder(), "changed.safetensors");
  }
  fakes::Program program_;
};

TEST_F(GoldenProgram, FilesThatAgreeGiveZero) {
  worker("cp \"$2\" \"$4\"");
  const ProgramResult result =
      program_.run({"golden", golden_path("attention_s17"), golden_path("train_2layers_4steps")});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith("AGREES  " + golden_path("attention_s17")));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("all 26 results agree"),
                    HasSubstr("level train, results in F64, batch 2, length 41, 4 steps")));
}

TEST_F(GoldenProgram, AFileThatDiffersGivesOneAndNamesTheStage) {
  worker_like("attention_s17");
  const std::string path = changed("attention_s17", "o_win");
  const ProgramResult result = program_.run({"golden", golden_path("attention_s17"), path});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("DIFFERS  " + path));
  EXPECT_THAT(result.out,
              HasSubstr("first stage that differs: o_win; q, k_cmp, v_cmp, p_grp, blocks, o_cmp "
                        "and o_sel are right\n"));
  const ProgramResult json = program_.run({"golden", path, "--json"});
  EXPECT_EQ(json.exit_code, 1);
  const auto object = nlohmann::json::parse(json.out);
  EXPECT_EQ(object.at("exit"), 1);
  const auto& file = object.at("files").at(0);
  EXPECT_EQ(file.at("first"), "o_win");
  EXPECT_EQ(file.at("stages").at(0).at("stage"), "q");
  EXPECT_EQ(file.at("stages").at(0).at("oracle").at("agrees"), true);
}

TEST_F(GoldenProgram, OnlyTheModelDiffers) {
  worker("cp \"" + changed("attention_s17", "gate") + "\" \"$4\"");
  const ProgramResult result = program_.run({"golden", golden_path("attention_s17")});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("first stage that differs: gate"));
  EXPECT_THAT(result.out, HasSubstr("(the oracle agrees with the file, the model does not)"));
}

TEST_F(GoldenProgram, BadFilesAreOneLineEachAndTheOthersAreJudged) {
  worker("cp \"$2\" \"$4\"");
  const std::string good = golden_path("attention_s17");
  const std::string text = program_.folder().write("text", "not at all");
  const std::string truncated =
      program_.folder().write("half", std::string(8, '\x10') + std::string(100, '{'));
  const ProgramResult result = program_.run({"golden",
                                             good,
                                             text,
                                             truncated,
                                             program_.folder() / "none",
                                             "--export",
                                             program_.folder() / "out"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, StartsWith("AGREES  " + good));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 3) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("nsa-harness: " + text + ": "),
                    HasSubstr(truncated + ": "),
                    HasSubstr("none: No such file")));
  EXPECT_TRUE(fs::exists(program_.folder() / "out/attention_s17.safetensors"));

  const std::string other = changed("attention_s17", "o_win");
  const ProgramResult json = program_.run({"golden", text, other, "--json"});
  EXPECT_EQ(json.exit_code, 3);
  const auto told = nlohmann::json::parse(json.out);
  ASSERT_EQ(told["files"].size(), 2U);
  EXPECT_EQ(told["files"][0]["file"], text);
  EXPECT_FALSE(told["files"][0]["refused"].get<std::string>().empty());
  EXPECT_EQ(told["files"][1]["file"], other);
}

TEST_F(GoldenProgram, AWorkerThatFailsIsAnErrorAndTheOracleStillJudges) {
  const std::string good = golden_path("attention_s17");
  const std::string bad = changed("attention_s17", "q");
  for (const auto& [script, words] :
       {std::pair{"echo 'first' >&2; echo 'it broke' >&2; exit 1",
                  "the worker ended with 1: it broke"},
        std::pair{"kill -9 $$", "the worker was ended by signal 9"},
        std::pair{"exit 0", "the worker's results cannot be used: "},
        std::pair{"echo garbage > \"$4\"", "the worker's results cannot be used: "}}) {
    worker(script);
    const ProgramResult result = program_.run({"golden", good});
    EXPECT_EQ(result.exit_code, 6) << script << result.err;
    EXPECT_THAT(result.out, AllOf(StartsWith("ERROR  "), HasSubstr(words))) << script;
    EXPECT_EQ(program_.run({"golden", bad}).exit_code, 1) << script;
  }
  worker_like("attention_s16");
  EXPECT_THAT(program_.run({"golden", good}).out, HasSubstr("wanted F64[2,"));
}

TEST_F(GoldenProgram, AnOldOrMissingWorkerNeverRuns) {
  const std::string good = golden_path("attention_s17");
  program_.set_source_hash("beef");
  const ProgramResult old = program_.run({"golden", good});
  EXPECT_EQ(old.exit_code, 6);
  EXPECT_THAT(old.err, HasSubstr("stale build"));
  fs::remove(program_.share() + "/manifest.json");
  const ProgramResult missing = program_.run({"golden", good});
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("this installation has no worker"));
}

TEST_F(GoldenProgram, AnInterruptedOneLeavesNothing) {
  worker("echo $$ > \"$HOME/pid\"; echo \"$4\" > \"$HOME/out\"; sleep 100");
  const ProgramResult result = program_.run({"golden", golden_path("attention_s17")}, "3");
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("interrupted"));
  std::ifstream out_file(program_.folder() / "out");
  std::string out;
  std::getline(out_file, out);
  ASSERT_FALSE(out.empty());
  EXPECT_FALSE(fs::exists(fs::path(out).parent_path())) << out;
  std::ifstream pid_file(program_.folder() / "pid");
  std::string pid;
  std::getline(pid_file, pid);
  EXPECT_FALSE(fs::exists("/proc/" + pid)) << pid;
}

TEST_F(GoldenProgram, ExportWritesTheOraclesFileAndNeverOverTheGivenOne) {
  worker("cp \"$2\" \"$4\"");
  const std::string out = program_.folder() / "exported/deep";
  const std::string path = changed("attention_s17", "y");
  EXPECT_EQ(program_.run({"golden", path, "--export", out}).exit_code, 1);
  EXPECT_EQ(program_.run({"golden", out + "/changed.safetensors"}).exit_code, 0);
  const ProgramResult over = program_.run({"golden", path, "--export", program_.folder().path()});
  EXPECT_EQ(over.exit_code, 3);
  EXPECT_THAT(over.err, HasSubstr("would write over the file that was given"));
  fs::create_directory(program_.folder() / "other");
  fs::copy_file(path, program_.folder() / "other/changed.safetensors");
  const ProgramResult twice = program_.run(
      {"golden", path, program_.folder() / "other/changed.safetensors", "--export", out});
  EXPECT_EQ(twice.exit_code, 3);
  EXPECT_THAT(twice.err, HasSubstr("would write two files to this name"));
  EXPECT_EQ(program_.run({"golden", path, "--export", path}).exit_code, 3);
}

}  // namespace
