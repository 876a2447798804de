// The program of the wheel: what it asks of a machine is the kernel, and it works there.
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <regex>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/cli/command.h"
#include "tests/fakes/temp_folder.h"
#include "tests/fakes/where.h"

namespace {

using harness::cli::CommandResult;
using harness::cli::run_command;
using testing::HasSubstr;
using testing::Not;

constexpr std::uintmax_t kMostBytes = 20'000'000;
constexpr unsigned kPortableSeconds = 300;

std::string portable() {
  return fakes::programs() + "/nsa-harness-portable";
}

std::string golden_file() {
  return fakes::tree() + "/tests/golden/attention_s17.safetensors";
}

// With nothing of this machine's environment; what it prints.
CommandResult alone(std::vector<std::string> words) {
  std::vector<std::string> argv = {"env", "-i", "HOME=/nowhere", portable()};
  argv.insert(argv.end(), words.begin(), words.end());
  return run_command(argv, kPortableSeconds * 1000);
}

class Portable : public testing::Test {
 protected:
  void SetUp() override {
#ifndef NSA_HAS_PORTABLE
    GTEST_SKIP() << "no static C library on this machine";
#endif
  }
};

TEST_F(Portable, AsksForNoLibrary) {
  const CommandResult header =
      run_command({"readelf", "--wide", "--program-headers", "--dynamic", portable()});
  ASSERT_TRUE(header.ok());
  EXPECT_THAT(header.out, HasSubstr("DYNAMIC"));
  EXPECT_THAT(header.out, Not(HasSubstr("INTERP")));
  EXPECT_THAT(header.out, Not(HasSubstr("(NEEDED)")));
  const CommandResult versions = run_command({"readelf", "--wide", "--version-info", portable()});
  ASSERT_TRUE(versions.ok());
  EXPECT_THAT(versions.out, Not(HasSubstr("GLIBC")));
  EXPECT_LE(std::filesystem::file_size(portable()), kMostBytes);
}

// What glibc does through libraries that it loads: these would have to be of the version that is inside.
TEST_F(Portable, LooksUpNoHostsAndNoUsers) {
  const CommandResult symbols = run_command({"nm", portable()});
  ASSERT_TRUE(symbols.ok());
  ASSERT_NE(symbols.out.find(" main\n"), std::string::npos);
  const std::regex lookup(
      " [TWtwi] (getaddrinfo|gethostby\\w+|getpw\\w+|getgr(gid|nam|ouplist)\\w*)\n");
  std::smatch found;
  EXPECT_FALSE(std::regex_search(symbols.out, found, lookup)) << found.str();
}

TEST_F(Portable, Judges) {
  const CommandResult version = alone({"version"});
  EXPECT_TRUE(version.ok());
  EXPECT_THAT(version.out, HasSubstr("nsa-harness "));
  const CommandResult agrees = alone({"golden", "--oracle-only", golden_file()});
  EXPECT_TRUE(agrees.ok()) << agrees.out;
  EXPECT_THAT(agrees.out, HasSubstr("AGREES"));
  const CommandResult refused =
      alone({"golden", "--oracle-only", "/no/such/file"});  // an exception
  EXPECT_EQ(refused.exit_code, 3);
}

// A seccomp filter: clone3 and pidfd_open fail, as where the container's runtime or the kernel is too old to know them.
bool refuse_new_calls() {
  std::array filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// glibc starts processes with clone3 where the system has it; the end of a process is told by a pidfd.
TEST_F(Portable, StartsProcessesAndSeesTheirEndWhereNewCallsAreRefused) {
  constexpr int kNoFilter = 77;
  const fakes::TempFolder folder;
  const std::vector<std::string> words = {
      portable(), "run", "--out", folder.path(), "--db", folder.path() + "/runs.db", "--", "true"};
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));  // NOLINT
  argv.push_back(nullptr);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(kPortableSeconds);
    if (!refuse_new_calls()) _exit(kNoFilter);
    execv(argv[0], argv.data());
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kNoFilter) GTEST_SKIP() << "this machine allows no seccomp filter";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
