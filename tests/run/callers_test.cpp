// A process that calls, here this one: what it writes is read, and wakes nobody; how soon the next look is due.
#include "harness/run/processes/callers.h"

#include <cstddef>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  callers.address().copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + callers.address().size());
  auto* const generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT: the socket API's own way
  EXPECT_EQ(connect(fd.get(), generic, length), 0);
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

TEST(Callers, WhoCallsWakesWhatHeSaysDoesNot) {
  Callers callers;
  const Fd caller = caller_of(callers);
  EXPECT_THAT(wakers(callers), SizeIs(1));
  lines_of(callers);
  write_as(caller, "one\ntwo\n");
  EXPECT_THAT(wakers(callers), SizeIs(0));
  EXPECT_THAT(lines_of(callers), ElementsAre("one", "two"));
}

TEST(Callers, WhatWasSaidBeforeTheEndIsRead) {
  Callers callers;
  Fd caller = caller_of(callers);
  write_as(caller, "last\n");
  caller.reset();
  EXPECT_THAT(lines_of(callers), ElementsAre("last"));
}

// A socket that is full makes its rank wait for the next look.
TEST(Callers, WhoSaysMuchIsReadSoonerUntilHeSaysLittle) {
  Callers callers;
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
