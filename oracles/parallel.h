// Work on independent items by several threads. What an item computes must not depend on which
// thread takes it: then no result depends on the number of threads.
#pragma once

#include <cstdint>
#include <functional>

namespace oracles {

// Calls body(begin, end) for consecutive pieces of [0, count) of at most `grain` items, on
// `threads` threads (0: as many as the hardware has). Returns when all are done; rethrows the first
// exception.
void parallel_for(std::int64_t count,
                  std::int64_t grain,
                  int threads,
                  const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace oracles
