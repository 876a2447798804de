// Who can end a wait. Real processes: children of this test, and orphans, which were not started together with it.
#include "harness/run/looks/other_end.h"

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/fakes/temp_folder.h"

namespace harness {
namespace {

class OtherEndTest : public ::testing::Test {
 protected:
  ~OtherEndTest() override {
    for (const pid_t pid : started_) kill(pid, SIGKILL);
    while (waitpid(-1, nullptr, 0) > 0) {
    }
  }

  // Runs `does` and then stays.
  pid_t child(const std::function<void()>& does) {
    const pid_t pid = fork();
    if (pid == 0) stay(does);
    started_.push_back(pid);
    return pid;
  }

  // The same in a process whose parent has ended.
  pid_t orphan(const std::function<void()>& does) {
    int tells[2];
    EXPECT_EQ(pipe(tells), 0);
    const pid_t parent = fork();
    if (parent == 0) {
      const pid_t pid = fork();
      if (pid == 0) {
        close(tells[0]);
        close(tells[1]);
        stay(does);
      }
      _exit(write(tells[1], &pid, sizeof pid) == sizeof pid ? 0 : 1);
    }
    pid_t pid = 0;
    EXPECT_EQ(read(tells[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
    EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
    close(tells[0]);
    close(tells[1]);
    started_.push_back(pid);
    return pid;
  }

  [[noreturn]] static void stay(const std::function<void()>& does) {
    does();
    for (;;) pause();
  }

  static OtherEnd asked(pid_t pid, const std::string& call, int descriptor = -1) {
    WaitingCall waits;
    waits.name = call;
    waits.first = static_cast<std::uint64_t>(descriptor);
    const Processes all = all_processes();
    return OtherEnds(all).of(pid, waits);
  }

  // Asked until it answers, since who is asked about has only just begun.
  static OtherEnd end_of(pid_t pid, const std::string& call, int descriptor = -1) {
    OtherEnd end;
    for (int i = 0; i < 1'000 && end.told.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      end = asked(pid, call, descriptor);
    }
    return end;
  }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

  // Waits until a process has said that it is so far.
  void await(const std::string& name) const {
    for (int i = 0; i < 1'000 && access(path(name).c_str(), F_OK) != 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  void say(const std::string& name) const { std::ofstream(path(name)).put('\n'); }

  void lock(const std::string& name) const {
    const int file = open(path(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    (void)flock(file, LOCK_EX);
    say(name + " is locked");
  }

  fakes::TempFolder folder_;

 private:
  std::vector<pid_t> started_;
};

std::string number(pid_t pid) {
  return "process " + std::to_string(pid) + " ";
}

TEST_F(OtherEndTest, ALockIsHeldByAnotherJobOrByAProcessOfThisOne) {
  const pid_t stranger = orphan([&] { lock("a"); });
  const pid_t sibling = child([&] { lock("b"); });
  await("a is locked");
  await("b is locked");
  const OtherEnd outside = end_of(child([&] { lock("a"); }), "flock");
  EXPECT_TRUE(outside.outside);
  EXPECT_TRUE(outside.told.starts_with(number(stranger))) << outside.told;
  EXPECT_TRUE(outside.told.ends_with(", which holds the lock")) << outside.told;
  const OtherEnd within = end_of(child([&] { lock("b"); }), "flock");
  EXPECT_FALSE(within.outside);
  EXPECT_EQ(within.holders, std::vector<pid_t>{sibling});
  EXPECT_TRUE(within.told.starts_with(number(sibling))) << within.told;
}

TEST_F(OtherEndTest, ALockThatTheProcessItselfHolds) {
  const pid_t twice = child([&] {
    lock("c");
    lock("c");
  });
  const OtherEnd end = end_of(twice, "flock");
  EXPECT_FALSE(end.outside);
  EXPECT_EQ(end.told, "itself: it holds the lock already");
}

TEST_F(OtherEndTest, APipeToAnotherJobOrToAProcessOfThisOne) {
  for (const bool strange : {true, false}) {
    const std::string name = strange ? "strange" : "own";
    ASSERT_EQ(mkfifo(path(name).c_str(), 0600), 0);
    const auto opened = [&] { (void)open(path(name).c_str(), O_RDWR | O_CLOEXEC); };
    const pid_t writer = strange ? orphan(opened) : child(opened);
    constexpr int kDescriptor = 77;
    const pid_t reader =
        child([&] { (void)dup2(open(path(name).c_str(), O_RDWR | O_CLOEXEC), kDescriptor); });
    const OtherEnd end = end_of(reader, "read", kDescriptor);
    EXPECT_EQ(end.outside, strange);
    EXPECT_EQ(end.holders, std::vector<pid_t>{writer});
  }
}

TEST_F(OtherEndTest, AConnectionToAnotherJobOrToAProcessOfThisOne) {
  for (const int family : {AF_INET, AF_INET6}) {
    for (const bool strange : {true, false}) {
      const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_storage address{};
      address.ss_family = static_cast<sa_family_t>(family);
      if (family == AF_INET) {
        reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      } else {
        reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr = in6addr_loopback;
      }
      socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      auto* at = reinterpret_cast<sockaddr*>(&address);
      if (bind(listener, at, size) != 0 || listen(listener, 1) != 0)
        continue;  // no such network here
      ASSERT_EQ(getsockname(listener, at, &size), 0);
      const auto serve = [&] { (void)accept(listener, nullptr, nullptr); };
      const pid_t server = strange ? orphan(serve) : child(serve);
      constexpr int kDescriptor = 78;
      const pid_t client = child([&] {
        const int own = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void)connect(own, at, size);
        (void)dup2(own, kDescriptor);
      });
      close(listener);
      const OtherEnd end = end_of(client, "recvfrom", kDescriptor);
      EXPECT_EQ(end.outside, strange);
      EXPECT_EQ(end.holders, std::vector<pid_t>{server});
      EXPECT_TRUE(end.told.starts_with(number(server))) << end.told;
      const std::string host = family == AF_INET ? " at 127.0.0.1:" : " at [::1]:";
      EXPECT_NE(end.told.find(host), std::string::npos) << end.told;
    }
  }
}

TEST_F(OtherEndTest, AFileIsTheFileSystems) {
  say("data.bin");
  constexpr int kDescriptor = 79;
  const pid_t reader =
      child([&] { (void)dup2(open(path("data.bin").c_str(), O_RDONLY | O_CLOEXEC), kDescriptor); });
  const OtherEnd end = end_of(reader, "pread64", kDescriptor);
  EXPECT_TRUE(end.outside);
  EXPECT_EQ(end.told, "the file system of " + path("data.bin"));
}

TEST_F(OtherEndTest, OfAWaitForNoDescriptorNothingIsKnown) {
  for (const char* call : {"futex", "epoll_wait", "wait4", "read", "flock", "poll"}) {
    const OtherEnd end = asked(child([] {}), call);
    EXPECT_FALSE(end.outside) << call;
    EXPECT_TRUE(end.told.empty()) << call << ": " << end.told;
  }
}

}  // namespace
}  // namespace harness
