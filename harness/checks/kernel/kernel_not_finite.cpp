#include "harness/checks/kernel/kernel_not_finite.h"

#include <cmath>
#include <set>
#include <utility>

namespace harness::checks {

void tell_not_finite(const oracles::Tensor& found, Departure& seen) {
  if (!seen.laws.empty() || found.data.empty()) return;
  const std::size_t axes = found.shape.size();
  const auto width = static_cast<std::size_t>(found.shape[axes - 1]);
  const auto count = static_cast<std::size_t>(found.shape[axes - 2]);
  const auto heads = axes == 5 ? static_cast<std::size_t>(found.shape[2]) : 1;
  std::set<std::pair<std::size_t, std::size_t>> rows;
  for (std::size_t i = 0; i < found.data.size(); ++i) {
    if (std::isfinite(found.data[i])) continue;
    const std::size_t vector = i / width;
    rows.insert({vector / count / heads, vector % count});
  }
  if (rows.empty() || static_cast<std::int64_t>(rows.size()) != seen.row_count()) return;
  seen.code = kNotFinite;
}

bool mend_not_finite(const oracles::Tensor& wanted, oracles::Tensor& found) {
  bool any = false;
  for (std::size_t i = 0; i < found.data.size(); ++i) {
    if (std::isfinite(found.data[i])) continue;
    found.data[i] = wanted.data[i];
    any = true;
  }
  return any;
}

}  // namespace harness::checks
