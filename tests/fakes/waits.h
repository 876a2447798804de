// What a process can do for a long time without moving: compute, sleep, wait for a child, a lock or a socket.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <mutex>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace fakes {

inline void spin(int ms) {
  timespec now{};
  const auto ms_of = [](const timespec& t) { return t.tv_sec * 1000 + t.tv_nsec / 1'000'000; };
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto until = ms_of(now) + ms;
  while (ms_of(now) < until) clock_gettime(CLOCK_MONOTONIC, &now);
}

// In one call, whatever interrupts it.
inline void sleep_once(int ms) {
  timespec left{ms / 1000, ms % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0) {
  }
}

// A compiler, as a rank may start one.
inline void start_child_and_wait(int ms) {
  const pid_t child = fork();
  if (child == 0) {
    spin(ms);
    _exit(0);
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// A lock that another thread holds for ever.
inline void wait_for_lock() {
  std::mutex mutex;
  std::atomic<bool> held = false;
  std::thread holder([&] {
    const std::lock_guard lock(mutex);
    held = true;
    while (true) pause();
  });
  while (!held) std::this_thread::yield();
  const std::lock_guard lock(mutex);
  holder.join();
}

// A socket whose other end never answers.
inline void wait_for_answer() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) _exit(75);
  char byte = 0;
  while (recv(ends[0], &byte, 1, 0) < 0 && errno == EINTR) {
  }
}

// For ever, in naps.
inline void poll_for_ever() {
  while (true) sleep_once(30);
}

}  // namespace fakes
