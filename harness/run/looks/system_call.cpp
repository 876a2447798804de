#include "harness/run/looks/system_call.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>

namespace harness {
namespace {

enum class Limit {
  none,
  always,       // a sleep whose end is not known
  sleep,        // an argument points to the time
  pointer,      // an argument points to the time, null where there is none
  milliseconds  // an argument holds it, negative where there is none
};

struct KnownCall {
  long number;
  const char* name;
  Limit limit = Limit::none;
  std::size_t argument = 0;  // that holds the limit
};

// Calls that a process can wait in for long. Those of the older kind do not exist on every processor.
constexpr std::array kKnownCalls = {
#ifdef SYS_poll
    KnownCall{SYS_poll, "poll", Limit::milliseconds, 2},
    KnownCall{SYS_select, "select", Limit::pointer, 4},
    KnownCall{SYS_epoll_wait, "epoll_wait", Limit::milliseconds, 3},
    KnownCall{SYS_pause, "pause"},
#endif
    KnownCall{SYS_nanosleep, "nanosleep", Limit::sleep, 0},
    KnownCall{SYS_clock_nanosleep, "clock_nanosleep", Limit::sleep, 2},
    KnownCall{SYS_restart_syscall, "restart_syscall", Limit::always},
    KnownCall{SYS_futex, "futex", Limit::pointer, 3},
    KnownCall{SYS_ppoll, "ppoll", Limit::pointer, 2},
    KnownCall{SYS_pselect6, "pselect6", Limit::pointer, 4},
    KnownCall{SYS_epoll_pwait, "epoll_pwait", Limit::milliseconds, 3},
#ifdef SYS_epoll_pwait2
    KnownCall{SYS_epoll_pwait2, "epoll_pwait2", Limit::pointer, 3},
#endif
    KnownCall{SYS_rt_sigtimedwait, "rt_sigtimedwait", Limit::pointer, 2},
    KnownCall{SYS_semtimedop, "semtimedop", Limit::pointer, 3},
    KnownCall{SYS_mq_timedreceive, "mq_timedreceive", Limit::pointer, 4},
    KnownCall{SYS_recvmmsg, "recvmmsg", Limit::pointer, 4},
    KnownCall{SYS_io_getevents, "io_getevents", Limit::pointer, 4},
    KnownCall{SYS_read, "read"},
    KnownCall{SYS_write, "write"},
    KnownCall{SYS_readv, "readv"},
    KnownCall{SYS_writev, "writev"},
    KnownCall{SYS_pread64, "pread64"},
    KnownCall{SYS_openat, "openat"},
    KnownCall{SYS_fsync, "fsync"},
    KnownCall{SYS_flock, "flock"},
    KnownCall{SYS_fcntl, "fcntl"},
    KnownCall{SYS_ioctl, "ioctl"},
    KnownCall{SYS_recvfrom, "recvfrom"},
    KnownCall{SYS_recvmsg, "recvmsg"},
    KnownCall{SYS_sendto, "sendto"},
    KnownCall{SYS_sendmsg, "sendmsg"},
    KnownCall{SYS_accept, "accept"},
    KnownCall{SYS_accept4, "accept4"},
    KnownCall{SYS_connect, "connect"},
    KnownCall{SYS_wait4, "wait4"},
    KnownCall{SYS_waitid, "waitid"},
    KnownCall{SYS_rt_sigsuspend, "rt_sigsuspend"},
};

constexpr std::size_t kArguments = 6;
using Arguments = std::array<std::uint64_t, kArguments>;

// The numbers of a line, in base 10 or 16; fewer than wanted where the line ends early.
std::size_t numbers_of(const std::string& line, long& number, Arguments& arguments) {
  const char* at = line.c_str();
  char* end = nullptr;
  errno = 0;
  number = std::strtol(at, &end, 10);
  if (end == at || errno != 0) return 0;
  std::size_t found = 0;
  for (std::uint64_t& argument : arguments) {
    at = end;
    argument = std::strtoull(at, &end, 16);
    if (end == at || errno != 0) return found;
    ++found;
  }
  return found;
}

// FUTEX_WAIT takes a span of time, FUTEX_WAIT_BITSET and what waits for locks a point in it.
WaitingCall::Clock futex_clock(std::uint64_t operation) {
  if ((operation & FUTEX_CMD_MASK) == FUTEX_WAIT) return WaitingCall::Clock::relative;
  return (operation & FUTEX_CLOCK_REALTIME) != 0 ? WaitingCall::Clock::realtime
                                                 : WaitingCall::Clock::monotonic;
}

// A point in the time of its clock where its flags say so; nanosleep always takes a span.
WaitingCall::Clock sleep_clock(long number, const Arguments& arguments) {
  const bool at_a_point = number == SYS_clock_nanosleep && (arguments.at(1) & TIMER_ABSTIME) != 0;
  if (!at_a_point) return WaitingCall::Clock::relative;
  return arguments.front() == CLOCK_REALTIME ? WaitingCall::Clock::realtime
                                             : WaitingCall::Clock::monotonic;
}

// What stands in the memory of a process; false where it cannot be read.
template <class Value>
bool read_memory(pid_t pid, std::uint64_t address, Value& value) {
  std::ifstream memory("/proc/" + std::to_string(pid) + "/mem", std::ios::binary);
  memory.seekg(static_cast<std::streamoff>(address));
  memory.read(reinterpret_cast<char*>(&value), sizeof value);  // NOLINT: its bytes
  return static_cast<bool>(memory);
}

bool has_limit(const KnownCall& call, const Arguments& arguments) {
  switch (call.limit) {
    case Limit::none: return false;
    case Limit::always:
    case Limit::sleep: return true;
    case Limit::pointer: return arguments.at(call.argument) != 0;
    case Limit::milliseconds:
      return static_cast<std::int32_t>(arguments.at(call.argument) & 0xffffffffU) >= 0;
  }
  return false;
}

}  // namespace

std::optional<WaitingCall> parse_waiting_call(std::string_view line) {
  if (line == "running") return WaitingCall{"running", false};
  long number = 0;
  Arguments arguments{};
  const std::size_t found = numbers_of(std::string(line), number, arguments);
  // Blocked outside of a system call, in a page fault: two numbers follow, stack and program counter.
  if (number == -1 && found >= 2) return WaitingCall{"page fault", false};
  if (number < 0 || found < kArguments) return std::nullopt;
  const auto* known = std::find_if(kKnownCalls.begin(), kKnownCalls.end(), [&](const auto& call) {
    return call.number == number;
  });
  if (known == kKnownCalls.end()) {
    return WaitingCall{"system call " + std::to_string(number), false};
  }
  WaitingCall call{known->name, has_limit(*known, arguments)};
  call.first = arguments[0];
  call.second = arguments[1];
  if (!call.timed) return call;
  if (known->limit == Limit::milliseconds) {
    call.limit_ms = static_cast<std::int32_t>(arguments.at(known->argument) & 0xffffffffU);
  } else if (known->limit == Limit::pointer) {
    call.limit_at = arguments.at(known->argument);
    call.limit_clock =
        known->number == SYS_futex ? futex_clock(arguments.at(1)) : WaitingCall::Clock::relative;
  } else if (known->limit == Limit::sleep) {
    call.limit_at = arguments.at(known->argument);
    call.limit_clock = sleep_clock(known->number, arguments);
  }
  return call;
}

std::optional<std::int64_t> time_left_ms(pid_t pid, const WaitingCall& call) {
  if (call.limit_ms > 0) return call.limit_ms;
  if (!call.timed || call.limit_at == 0) return std::nullopt;
  timespec limit{};
  if (!read_memory(pid, call.limit_at, limit)) return std::nullopt;
  timespec now{};
  if (call.limit_clock != WaitingCall::Clock::relative) {
    const bool real = call.limit_clock == WaitingCall::Clock::realtime;
    clock_gettime(real ? CLOCK_REALTIME : CLOCK_MONOTONIC, &now);
  }
  constexpr std::int64_t kLongestS = 1 << 30;  // libraries write "for ever" as the largest number
  const std::int64_t left_s = std::clamp<std::int64_t>(limit.tv_sec, 0, kLongestS * 4) - now.tv_sec;
  return std::max<std::int64_t>(
      0, std::min(left_s, kLongestS) * 1000 + (limit.tv_nsec - now.tv_nsec) / 1'000'000);
}

std::optional<int> descriptor_of(pid_t pid, const WaitingCall& call) {
  constexpr std::array kOfOne = {"read",
                                 "readv",
                                 "pread64",
                                 "write",
                                 "writev",
                                 "recvfrom",
                                 "recvmsg",
                                 "recvmmsg",
                                 "sendto",
                                 "sendmsg",
                                 "connect",
                                 "fsync"};
  if (std::find(kOfOne.begin(), kOfOne.end(), call.name) != kOfOne.end())
    return static_cast<int>(call.first);
  if ((call.name != "poll" && call.name != "ppoll") || call.second != 1) return std::nullopt;
  pollfd one{};
  if (!read_memory(pid, call.first, one)) return std::nullopt;
  return one.fd;
}

}  // namespace harness
