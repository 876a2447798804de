#include "oracles/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace oracles {
namespace {

std::int64_t thread_count(int threads, std::int64_t pieces) {
  const std::int64_t wanted =
      threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  return std::min(wanted, pieces);
}

}  // namespace

void parallel_for(std::int64_t count,
                  std::int64_t grain,
                  int threads,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t pieces = (count + grain - 1) / grain;
  std::atomic<std::int64_t> next = 0;
  std::exception_ptr first_error;
  std::mutex error_lock;
  const auto work = [&] {
    for (std::int64_t piece = next++; piece < pieces; piece = next++) {
      try {
        body(piece * grain, std::min(count, (piece + 1) * grain));
      } catch (...) {
        const std::lock_guard guard(error_lock);
        if (!first_error) {
          first_error = std::current_exception();
        }
        next = pieces;
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    try {
      for (std::int64_t i = 1; i < thread_count(threads, pieces); ++i) {
        helpers.emplace_back(work);
      }
    } catch (const std::system_error&) {
      // No more threads to be had: those that started do the work.
    }
    work();
  }
  if (first_error) {
    std::rethrow_exception(first_error);
  }
}

}  // namespace oracles
