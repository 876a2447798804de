#include "oracles/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace oracles {
namespace {

// The pieces of one call.
struct Job {
  const std::function<void(std::int64_t, std::int64_t)>& body;
  std::int64_t count;
  std::int64_t grain;
  std::int64_t pieces;
  std::int64_t helpers;  // that may still join; as all below but `next`, of the pool's lock
  std::int64_t working = 0;
  std::exception_ptr first_error = nullptr;
  std::atomic<std::int64_t> next = 0;
};

// Threads that live as long as the program: a call of some microseconds is not worth starting one. Who calls works as well, so that
// a call ends whether or not anybody helps, and calls may be made inside of others.
class Pool {
 public:
  Pool() {
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    try {
      for (unsigned i = 1; i < cores; ++i) std::thread([this] { help(); }).detach();
    } catch (const std::system_error&) {
      // No more threads to be had: those that started do the work.
    }
  }

  void run(Job& job) {
    const std::int64_t helpers = job.helpers;  // once it is in the list it is the lock's
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_front(&job);
    }
    for (std::int64_t i = 0; i < helpers; ++i) begun_.notify_one();
    work(job);
    std::unique_lock lock(mutex_);
    std::erase(jobs_, &job);
    left_.wait(lock, [&] { return job.working == 0; });
  }

 private:
  void help() {
    std::unique_lock lock(mutex_);
    for (;;) {
      begun_.wait(lock, [&] { return !jobs_.empty(); });
      Job& job = *jobs_.front();
      ++job.working;
      if (--job.helpers == 0) jobs_.pop_front();
      lock.unlock();
      work(job);
      lock.lock();
      std::erase(jobs_, &job);  // nothing is left of it to take
      if (--job.working == 0) left_.notify_all();
    }
  }

  void work(Job& job) {
    for (std::int64_t piece = job.next++; piece < job.pieces; piece = job.next++) {
      try {
        job.body(piece * job.grain, std::min(job.count, (piece + 1) * job.grain));
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!job.first_error) job.first_error = std::current_exception();
        job.next = job.pieces;
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable left_;
  std::deque<Job*> jobs_;  // that more helpers may join, the newest first
};

}  // namespace

void parallel_for(std::int64_t count,
                  std::int64_t grain,
                  int threads,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t pieces = (count + grain - 1) / grain;
  const std::int64_t wanted =
      threads > 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  if (pieces <= 1 || wanted == 1) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      body(piece * grain, std::min(count, (piece + 1) * grain));
    }
    return;
  }
  static Pool& pool = *new Pool;  // it lives on: its threads may wait while the program ends
  Job job{body, count, grain, pieces, std::min(wanted, pieces) - 1};
  pool.run(job);
  if (job.first_error) std::rethrow_exception(job.first_error);
}

}  // namespace oracles
