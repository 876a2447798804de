#include "oracles/training/exact_sums.h"

#include "oracles/counter_random.h"

namespace oracles {
namespace {

constexpr std::uint64_t kOfSums = std::uint64_t{1} << 62U;

std::uint64_t key_of(const ExactSum& sum, std::int64_t rank) {
  const std::uint64_t of_step =
      draw(static_cast<std::uint64_t>(sum.seed) ^ kOfSums, static_cast<std::uint64_t>(sum.step));
  const std::uint64_t of_bucket = draw(of_step, static_cast<std::uint64_t>(sum.bucket));
  return draw(of_bucket, static_cast<std::uint64_t>(rank));
}

}  // namespace

std::vector<int> addends(const ExactSum& sum, std::int64_t rank, std::int64_t count) {
  const std::uint64_t key = key_of(sum, rank);
  const int largest = static_cast<int>(255 / sum.world);
  std::vector<int> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t drawn =
        draw(key, static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(2 * largest + 1);
    values.push_back(static_cast<int>(drawn) - largest);
  }
  return values;
}

std::vector<int> sums(const ExactSum& sum, std::int64_t count) {
  std::vector<int> all(static_cast<std::size_t>(count), 0);
  for (std::int64_t rank = 0; rank < sum.world; ++rank) {
    const std::vector<int> of_rank = addends(sum, rank, count);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += of_rank[i];
  }
  return all;
}

}  // namespace oracles
