// Starts pieces of work as soon as they fit beside what runs already, each on a thread of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "harness/run/cases_at_once.h"

namespace harness::cli {

enum class Order {
  soonest_done,  // first those that share the machine, of the waiting ones always the first that fits: those that may take
  // longest come first, else in their order; then those that run alone, in their order
  as_given  // none begins before one that stands before it: where time may run out, the last ones are the ones to lose
};

// Runs every piece once and returns when all have ended.
// Throws: what the first failing piece threw, after all that had begun have ended; nothing is begun after it.
void run_side_by_side(const std::vector<Needs>& pieces,
                      const Capacity& capacity,
                      const std::function<void(std::size_t piece, const Place& place)>& run,
                      Order order = Order::soonest_done);

}  // namespace harness::cli
