// Nothing that looks like a secret is in what a run leaves behind, what is printed of it, and what is sent to strangers.
#include "nsa/base/secrets.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cli/machine/machine.h"
#include "harness/evidence/packed.h"
#include "harness/store/store.h"
#include "nsa/base/file.h"
#include "tests/cli/program.h"

namespace {

namespace fs = std::filesystem;
using fakes::ProgramResult;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHidden = "hunter2verysecret9";

class SecretsTest : public testing::Test {
 protected:
  // All files of runs and database, packed ones unpacked; what a command printed itself is its own.
  [[nodiscard]] std::string all_that_is_kept() const {
    std::string all;
    const std::string data = program_.folder() / ".local";
    for (const auto& entry : fs::recursive_directory_iterator(data)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = entry.path().filename();
      if (name == "command.out" || name == "command.err") continue;
      if (name.ends_with(".zst")) {
        harness::unpack_file(entry.path(), 1 << 26, [&](std::string_view piece) { all += piece; });
      } else {
        all += nsa::read_file(entry.path(), 1 << 26);
      }
    }
    const auto store = harness::Store::open_read_only(program_.database());
    for (const harness::RunRecord& run : store->runs(0, std::int64_t{1} << 50)) {
      all += run.provenance.argv;
      for (const auto& [name, value] : run.provenance.environment) all += name + "=" + value + "\n";
      for (const auto& [name, value] : run.provenance.command) all += name + "=" + value + "\n";
      for (const harness::CaseRecord& record : store->cases(run.id)) all += record.case_json;
    }
    for (const char* format : {"engineer", "json", "html", "junit", "github"}) {
      all += program_.run({"report", "--format", format}).out;
    }
    return all + program_.run({"explain", "last", "1"}).out + program_.run({"list", "--db"}).out;
  }

  fakes::Program program_;
};

TEST_F(SecretsTest, OfTheArgumentsOfACommand) {
  const std::vector<std::string> forms = {"--api-key=X",
                                          "https://me:X@host/x",
                                          "PASSWORD=X",
                                          "{\"password\": \"X\"}",
                                          "//me:X@host",
                                          "Authorization: Bearer X",
                                          "--token X",
                                          "export HF_TOKEN=X; true",
                                          "sk-X-0123456789abcdef"};
  std::vector<std::string> words = {
      "run", "--quiet", "--", "sh", "-c", "exit 3", "--password", kHidden};
  for (std::string form : forms) words.push_back(form.replace(form.find('X'), 1, kHidden));
  const ProgramResult result = program_.run(words);
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_THAT(result.out + result.err, Not(HasSubstr(kHidden)));
  const std::string kept = all_that_is_kept();
  EXPECT_THAT(kept, Not(HasSubstr(kHidden)));
  EXPECT_THAT(kept, HasSubstr("--api-key=***"));
}

TEST_F(SecretsTest, WithoutArgumentsNoneIsStored) {
  const ProgramResult result = program_.run(
      {"run", "--quiet", "--no-arguments", "--", "sh", "-c", "exit 0 # an innocent word"});
  EXPECT_NE(result.exit_code, 3) << result.err;
  const std::string kept = all_that_is_kept();
  EXPECT_THAT(kept, Not(HasSubstr("innocent")));
  EXPECT_THAT(kept, HasSubstr("2 arguments that are not stored"));
  EXPECT_EQ(program_.run({"run", "--no-arguments", program_.scenario()}).exit_code, 3);
}

TEST_F(SecretsTest, OfVariablesAndOfABundle) {
  program_.set_mood("crash");
  const std::string scenario =
      program_.scenario("about: see https://me:" + std::string(kHidden) + "@host\n");
  std::string shell =
      "export HOME=" + program_.folder().path() + "; unset NSA_HARNESS_DB XDG_DATA_HOME;";
  for (const char* variable : {"NCCL_EXTRA='https://me:X@host'",
                               "TORCH_LOGIN_PWD=X",
                               "CUDA_OTHER='--password X'",
                               "NCCL_HEADER='Authorization: Bearer X'",
                               "TRITON_JSON='{\"password\":\"X\"}'",
                               "OMP_DSN=X",
                               "TORCH_MYTOKEN=X"}) {
    std::string text = variable;
    shell += "export " + text.replace(text.find('X', text.find('=')), 1, kHidden) + ";";
  }
  const std::string program = program_.folder() / "bin/nsa-harness";
  const auto result =
      harness::cli::run_command({"bash",
                                 "-c",
                                 shell + program + " run " + scenario + " 2>&1; " + program +
                                     " bundle last 1 --no-shrink --out $HOME/b.tar.zst 2>&1"},
                                120'000);
  EXPECT_THAT(result.out, HasSubstr("b.tar.zst"));
  EXPECT_THAT(result.out, HasSubstr("the bundle will hold scenario.yaml, "));
  EXPECT_THAT(result.out, HasSubstr("the bundle will hold variable NCCL_EXTRA=https://***@host"));
  EXPECT_THAT(result.out, Not(HasSubstr(kHidden)));
  std::string bundle;
  harness::unpack_file(
      program_.folder() / "b.tar.zst", 1 << 26, [&](std::string_view piece) { bundle += piece; });
  EXPECT_THAT(bundle, Not(HasSubstr(kHidden)));
  EXPECT_EQ(
      program_.run({"replay", program_.folder() / "b.tar.zst", "--out", program_.folder() / "r"})
          .exit_code,
      1);
}

}  // namespace
