#include "harness/worker/work_counters.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <unistd.h>
#include <utility>

namespace harness {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::int64_t process_cpu_ms() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::int64_t{used.tv_sec} * 1000 + used.tv_nsec / 1'000'000;
}

}  // namespace

std::int64_t resident_bytes() {
  long pages_total = 0;
  long pages_resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%ld %ld", &pages_total, &pages_resident) != 2) {
      pages_resident = 0;
    }
    std::fclose(file);
  }
  return std::int64_t{pages_resident} * sysconf(_SC_PAGESIZE);
}

Progress::Progress() {
  last_ns_ = now_ns();
}

void Progress::touch(bool counts_as_gap) {
  const std::int64_t now = now_ns();
  const std::int64_t gap = now - last_ns_.exchange(now, std::memory_order_relaxed);
  if (!counts_as_gap) {
    return;
  }
  std::int64_t longest = longest_gap_ns_.load(std::memory_order_relaxed);
  while (gap > longest &&
         !longest_gap_ns_.compare_exchange_weak(longest, gap, std::memory_order_relaxed)) {
  }
}

void Progress::hook_fired() {
  hooks_.fetch_add(1, std::memory_order_relaxed);
  touch(true);
}

void Progress::collective_enqueued() {
  enqueued_.fetch_add(1, std::memory_order_relaxed);
  touch(true);
}

void Progress::collective_completed() {
  completed_.fetch_add(1, std::memory_order_relaxed);
  touch(false);
}

void Progress::worked(std::int64_t bytes) {
  work_items_.fetch_add(1, std::memory_order_relaxed);
  bytes_written_.fetch_add(bytes, std::memory_order_relaxed);
  touch(true);
}

void Progress::enter(const std::string& phase, std::int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    phase_ = phase;
  }
  step_ = step;
  layer_ = -1;
  longest_gap_ns_ = 0;
  worked();
}

void Progress::look() {
  const std::int64_t ran = operators().all();
  if (ran != std::exchange(operators_seen_, ran)) touch(true);
}

OperatorCount Progress::operators() const {
  return watches_operators_ ? operators_run() : OperatorCount{};
}

std::string Progress::phase() const {
  const std::lock_guard lock(mutex_);
  return phase_;
}

Heartbeat Progress::heartbeat() const {
  Heartbeat beat;
  beat.phase = phase();
  beat.step = step_;
  beat.layer = layer_;
  const OperatorCount ran = operators();
  beat.counters.operators_forward = ran.forward;
  beat.counters.operators_backward = ran.backward;
  beat.counters.hooks = hooks_;
  beat.counters.collectives_enqueued = enqueued_;
  beat.counters.collectives_completed = completed_;
  beat.counters.work_items = work_items_;
  beat.counters.bytes_written = bytes_written_;
  beat.counters.cpu_ms = process_cpu_ms();
  beat.longest_gap_ms = longest_gap_ns_ / 1'000'000;
  beat.rss_bytes = resident_bytes();
  return beat;
}

std::string Progress::watch_operators() {
  watches_operators_ = true;
  if (operators_are_seen()) return "dispatch";
  count_operators_by_callback();
  return "callback";
}

}  // namespace harness
