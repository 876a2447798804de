#include "harness/history/slow_commit.h"

namespace harness::history {

CommitAnswer side_of_slowdown(const PairedChange& against_first, double slowdown) {
  const double border = 0.5 * slowdown;
  if (against_first.low > border) return CommitAnswer::bad;
  if (against_first.high < border) return CommitAnswer::good;
  return CommitAnswer::unknown;  // a NaN, too
}

}  // namespace harness::history
