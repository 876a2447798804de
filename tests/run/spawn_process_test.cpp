// One process: what it is given, what it is not, how its end is told. Shell scripts stand in for workers.
#include "harness/run/processes/spawn_process.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "harness/run/looks/proc_look.h"
#include "harness/run/processes/process_end.h"
#include "nsa/base/error.h"
#include "tests/fakes/temp_folder.h"

namespace harness {
namespace {

class ProcessTest : public ::testing::Test {
 protected:
  Process shell(const std::string& script, int listen_fd = -1) {
    return start({"/bin/sh", "-c", script}, listen_fd);
  }

  Process start(const std::vector<std::string>& argv, int listen_fd = -1) {
    ProcessRequest request;
    request.argv = argv;
    request.environment = {"ONLY=this"};
    request.out_path = folder_ / "out";
    request.err_path = folder_ / "err";
    if (listen_fd >= 0) request.passed = {listen_fd};
    return Process::spawn(request);
  }

  static ExitStatus end_of(Process& process) {
    pollfd wait{process.pidfd(), POLLIN, 0};
    EXPECT_EQ(poll(&wait, 1, 30'000), 1);
    EXPECT_TRUE(process.exited());
    return process.reap();
  }

  [[nodiscard]] std::string out() const {
    std::ifstream file(folder_ / "out");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  fakes::TempFolder folder_;
};

// Readable within that time?
bool is_told(const Fd& end, int within_ms) {
  pollfd wait{end.get(), POLLIN, 0};
  return poll(&wait, 1, within_ms) == 1;
}

TEST_F(ProcessTest, TheEndIsSeenWithoutAPidfdToo) {
  Process process = shell("sleep 600");
  const Fd end = watch_end_in_proc(process.pid());
  ASSERT_TRUE(end.is_open());
  EXPECT_FALSE(is_told(end, 100)) << "it runs";
  process.signal(SIGKILL);
  EXPECT_TRUE(is_told(end, 30'000)) << "it has ended, and nobody has reaped it";
  const Fd late = watch_end_in_proc(process.pid());
  EXPECT_TRUE(is_told(late, 30'000));
  (void)process.reap();
  EXPECT_FALSE(watch_end_in_proc(process.pid()).is_open()) << "no such process any more";
}

TEST_F(ProcessTest, ExitCodeAndSignal) {
  Process seven = shell("exit 7");
  EXPECT_EQ(end_of(seven).exit_code, 7);
  Process killed = shell("kill -KILL $$");
  const ExitStatus status = end_of(killed);
  EXPECT_EQ(status.exit_code, -1);
  EXPECT_EQ(status.signal, SIGKILL);
  EXPECT_GT(status.rss_peak_bytes, 0);
}

TEST_F(ProcessTest, GetsItsDescriptorsAndNoOther) {
  const int inherited = open("/dev/null", O_RDONLY);  // without O_CLOEXEC: of a careless caller
  ASSERT_GE(inherited, 0);
  Process process = start({"/bin/ls", "/proc/self/fd"});
  EXPECT_EQ(end_of(process).exit_code, 0);
  close(inherited);
  EXPECT_EQ(out(), "0\n1\n2\n3\n4\n") << "4 is the folder that ls reads";
}

TEST_F(ProcessTest, ReadsNothing) {
  Process process = start({"/bin/readlink", "/proc/self/fd/0"});
  EXPECT_EQ(end_of(process).exit_code, 0);
  EXPECT_EQ(out(), "/dev/null\n");
}

TEST_F(ProcessTest, GetsTheListenerAsFour) {
  Listener listener = listen_on_loopback();
  EXPECT_GT(listener.port, 0);
  Process process =
      start({"/bin/readlink", "/proc/self/fd/4", "/proc/self/fd/5"}, listener.fd.get());
  EXPECT_EQ(end_of(process).exit_code, 1) << "there is no 5";
  const std::string lines = out();
  EXPECT_EQ(lines.rfind("socket:", 0), 0u) << lines;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1);
}

TEST_F(ProcessTest, DescriptorsThatLieWhereTheTargetsAre) {
  // Whatever numbers pipe and socket have here, they arrive as 3 and 4.
  Fd three(3);
  Fd four(4);
  three.reset();
  four.reset();
  Listener listener = listen_on_loopback();
  Process process = shell("echo said >&3; readlink /proc/$$/fd/4", listener.fd.get());
  EXPECT_EQ(end_of(process).exit_code, 0);
  EXPECT_EQ(out().rfind("socket:", 0), 0u);
  std::array<char, 16> said{};
  EXPECT_EQ(read(process.events(), said.data(), said.size()), 5);
}

TEST_F(ProcessTest, EnvironmentIsExactlyAsGiven) {
  Process process = shell("tr '\\0' '\\n' < /proc/$$/environ");
  EXPECT_EQ(end_of(process).exit_code, 0);
  EXPECT_EQ(out(), "ONLY=this\n");
}

TEST_F(ProcessTest, WritingEndBlocksReadingEndDoesNot) {
  Process process = shell("grep flags /proc/$$/fdinfo/3; sleep 60");
  std::array<char, 8> nothing{};
  EXPECT_EQ(read(process.events(), nothing.data(), nothing.size()), -1);
  EXPECT_EQ(errno, EAGAIN);
  while (out().empty()) usleep(1'000);
  EXPECT_EQ(std::stol(out().substr(out().find_first_of("0123456789")), nullptr, 8) & O_NONBLOCK, 0)
      << out();
}

TEST_F(ProcessTest, RequestForStacksDoesNotEndAnUnpreparedProcess) {
  Process process = start({"/bin/sleep", "0.3"});  // a shell would clear its mask of signals
  process.signal(SIGUSR1);
  EXPECT_EQ(end_of(process).exit_code, 0);
}

TEST_F(ProcessTest, OwnGroupEndsWithItsLeader) {
  Process process = shell("sleep 60 & echo $!; exit 0");
  EXPECT_EQ(end_of(process).exit_code, 0);
  const pid_t grandchild = static_cast<pid_t>(std::stol(out()));
  for (int i = 0; i < 5'000; ++i) {
    const auto state = read_process_state(grandchild);
    if (!state || state->state == 'Z' || state->state == 'X') return;
    usleep(1'000);
  }
  FAIL() << "the grandchild lives";
}

// Whoever reaps has other processes to hear: it is told who is left, and is not made to wait for it.
TEST_F(ProcessTest, WhoIsLeftOfTheGroupIsToldWithoutWaiting) {
  Process process = shell("read line; exit 0");
  const pid_t late = fork();
  if (late == 0) {
    pause();
    _exit(0);
  }
  ASSERT_EQ(setpgid(late, process.pid()), 0);
  EXPECT_FALSE(process.group_gone()) << "it runs";
  EXPECT_EQ(end_of(process).exit_code, 0);
  EXPECT_FALSE(process.group_gone()) << "killed, and nobody has collected it";
  int status = 0;
  ASSERT_EQ(waitpid(late, &status, 0), late);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_TRUE(process.group_gone());
}

TEST_F(ProcessTest, DestructorLeavesNobody) {
  pid_t pid = -1;
  {
    const Process process = shell("trap '' TERM; sleep 60; sleep 60");
    pid = process.pid();
  }
  EXPECT_FALSE(read_process_state(pid));
}

class Ignored {
 public:
  explicit Ignored(int signal) : signal_(signal), before_(std::signal(signal, SIG_IGN)) {}
  Ignored(const Ignored&) = delete;
  Ignored& operator=(const Ignored&) = delete;
  ~Ignored() { std::signal(signal_, before_); }

 private:
  int signal_;
  void (*before_)(int);
};

// With SIGCHLD ignored the system reaps by itself, and how a process ended is lost: that is no exit code, and no wait for ever.
TEST_F(ProcessTest, AnEndThatIsLostIsToldAsLost) {
  const Ignored ignored(SIGCHLD);
  Process process = shell("sleep 0.3; exit 3");  // it must be there while it is begun to be watched
  EXPECT_THROW((void)end_of(process), nsa::Error);
  EXPECT_TRUE(process.reaped());
}

TEST_F(ProcessTest, MissingExecutableIsNamed) {
  ProcessRequest request;
  request.argv = {"/nowhere/worker"};
  request.out_path = request.err_path = folder_ / "out";
  try {
    (void)Process::spawn(request);
    FAIL();
  } catch (const nsa::Error& error) {
    EXPECT_EQ(std::string(error.what()), "cannot start /nowhere/worker: No such file or directory");
  }
}

// Reading the first page of a process's memory fails after the file was opened, as reading of one that just ended does.
TEST(ProcFile, WhatCannotBeReadIsEmpty) {
  EXPECT_EQ(proc_file(getpid(), "mem"), "");
  EXPECT_EQ(proc_file(getpid(), "none"), "");
  EXPECT_TRUE(parse_stat(proc_file(getpid(), "stat")));
}

TEST(ProcLook, StatOfAnyName) {
  const std::string tail = " S 1 1 1 0 -1 4194560 100 0 0 0 30 20 0 0 20 0 1 0 100 0 0";
  for (const char* name : {"(sh)", "(a b)", "(a) R 9 (b)", "()"}) {
    const auto state = parse_stat("12 " + std::string(name) + tail);
    ASSERT_TRUE(state) << name;
    EXPECT_EQ(state->state, 'S');
    EXPECT_EQ(state->cpu_ms, 50 * 1000 / sysconf(_SC_CLK_TCK));
  }
  for (const char* text :
       {"", "12", "12 (sh)", "12 (sh) S 1 1", "12 (sh) SS 1 1 1 0 -1 4194560 100 0 0 0 30 20"}) {
    EXPECT_FALSE(parse_stat(text)) << text;
  }
}

TEST(ProcLook, SeesThisProcess) {
  const Observation seen = look_at(3, 1, getpid(), all_processes());
  EXPECT_EQ(seen.process_observed, 3);
  EXPECT_EQ(seen.look, 1);
  EXPECT_EQ(seen.state, "R");
  ASSERT_FALSE(seen.threads.empty());
  const std::string tid = " " + std::to_string(getpid());
  EXPECT_EQ(seen.threads[0].thread.substr(seen.threads[0].thread.rfind(' ')), tid)
      << "the main thread first";
  EXPECT_TRUE(look_at(0, 0, -5, {}).threads.empty()) << "what is gone is seen as nothing";
}

TEST(ProcLook, SeesChildrenAndTheirTime) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const Observation seen = look_at(0, 0, getpid(), all_processes());
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  const auto at = std::find_if(seen.children.begin(),
                               seen.children.end(),
                               [&](const ChildProcess& one) { return one.pid == child; });
  ASSERT_NE(at, seen.children.end());
  EXPECT_FALSE(at->name.empty());
  const Observation after = look_at(0, 1, getpid(), all_processes());
  EXPECT_GE(after.children_cpu_ms, seen.children_cpu_ms - at->cpu_ms) << "of those that ended too";
}

TEST(ProcLook, AnswersReachTheirThreads) {
  const auto thread = [](const std::string& name, std::vector<std::string> frames = {}) {
    ThreadStack stack;
    stack.thread = name;
    stack.frames = std::move(frames);
    return stack;
  };
  Observation outside;
  outside.threads = {thread("a b 12"), thread("c 2"), thread("d 3")};
  outside.threads[0].wchan = "futex";
  Observation inside;
  inside.threads = {
      thread("other name 2", {"f"}), thread("x 12", {"g", "h"}), thread("y 99", {"i"})};
  merge_frames(outside, inside);
  EXPECT_EQ(outside.threads[0].frames, (std::vector<std::string>{"g", "h"}));
  EXPECT_EQ(outside.threads[0].wchan, "futex");
  EXPECT_EQ(outside.threads[1].frames, std::vector<std::string>{"f"});
  EXPECT_TRUE(outside.threads[2].frames.empty());
}

}  // namespace
}  // namespace harness
