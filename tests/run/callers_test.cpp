// A process that calls, here this one: what it writes is read, and wakes nobody; how soon the next look is due.
#include "harness/run/processes/callers.h"

#include <filesystem>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/temp_folder.h"

namespace {

using harness::Callers;
using harness::Fd;
using harness::LineReader;
using ::testing::ElementsAre;
using ::testing::SizeIs;

Fd caller_of(const Callers& callers) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  callers.address().copy(address.sun_path, sizeof address.sun_path - 1);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT: the socket API's own way
  EXPECT_EQ(connect(fd.get(), generic, sizeof address), 0);
  return fd;
}

void write_as(const Fd& caller, const std::string& text) {
  EXPECT_EQ(write(caller.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

std::vector<std::string> lines_of(Callers& callers) {
  std::vector<std::string> lines;
  callers.read([&](pid_t, LineReader::Piece, std::string_view text) { lines.emplace_back(text); });
  return lines;
}

std::vector<pollfd> wakers(const Callers& callers) {
  std::vector<pollfd> waited;
  callers.add_to(waited);
  EXPECT_GE(poll(waited.data(), waited.size(), 0), 0);
  std::erase_if(waited, [](const pollfd& one) { return one.revents == 0; });
  return waited;
}

// Longer than the address of a socket, which callers reach through its folder.
TEST(Callers, TheSocketIsInTheFolderWhateverTheLengthOfItsPath) {
  const fakes::TempFolder folder;
  const std::string deep = folder / (std::string(100, 'a') + "/" + std::string(100, 'b'));
  std::filesystem::create_directories(deep);
  std::string path;
  {
    const Callers callers(deep);
    path = callers.address();
    EXPECT_EQ(path, deep + "/ranks.sock");
    EXPECT_TRUE(std::filesystem::is_socket(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing is left in the record";
}

TEST(Callers, AFolderThatTakesNoSocketIsReplacedByOneOfThisUserAlone) {
  const fakes::TempFolder folder;
  folder.write("ranks.sock", "");  // the name is taken
  std::string path;
  {
    Callers callers(folder.path());
    path = callers.address();
    EXPECT_NE(path, folder / "ranks.sock");
    const auto permissions =
        std::filesystem::status(std::filesystem::path(path).parent_path()).permissions();
    EXPECT_EQ(permissions, std::filesystem::perms::owner_all);
    write_as(caller_of(callers), "heard\n");
    EXPECT_THAT(lines_of(callers), ElementsAre("heard"));
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(path).parent_path()));
}

TEST(Callers, WhoCallsWakesWhatHeSaysDoesNot) {
  const fakes::TempFolder folder;
  Callers callers(folder.path());
  const Fd caller = caller_of(callers);
  EXPECT_THAT(wakers(callers), SizeIs(1));
  lines_of(callers);
  write_as(caller, "one\ntwo\n");
  EXPECT_THAT(wakers(callers), SizeIs(0));
  EXPECT_THAT(lines_of(callers), ElementsAre("one", "two"));
}

TEST(Callers, WhatWasSaidBeforeTheEndIsRead) {
  const fakes::TempFolder folder;
  Callers callers(folder.path());
  Fd caller = caller_of(callers);
  write_as(caller, "last\n");
  caller.reset();
  EXPECT_THAT(lines_of(callers), ElementsAre("last"));
}

// A socket that is full makes its rank wait for the next look.
TEST(Callers, WhoSaysMuchIsReadSoonerUntilHeSaysLittle) {
  const fakes::TempFolder folder;
  Callers callers(folder.path());
  const Fd caller = caller_of(callers);
  lines_of(callers);
  const int longest = callers.interval_ms();
  write_as(caller, "little\n");
  lines_of(callers);
  EXPECT_EQ(callers.interval_ms(), longest);
  write_as(caller, std::string(30'000, 'x') + "\n");
  lines_of(callers);
  const int shorter = callers.interval_ms();
  EXPECT_LE(shorter, longest / 3);
  for (int round = 0; round < 10; ++round) {
    write_as(caller, std::string(60'000, 'x') + "\n");
    lines_of(callers);
  }
  EXPECT_EQ(callers.interval_ms(), 1);
  lines_of(callers);
  EXPECT_EQ(callers.interval_ms(), 2);
  for (int round = 0; round < 10; ++round) lines_of(callers);
  EXPECT_EQ(callers.interval_ms(), longest);
}

}  // namespace
