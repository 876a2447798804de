#include "harness/checks/attention/record/sample_rows.h"

#include <algorithm>
#include <set>

namespace harness::checks {
namespace {

constexpr std::int64_t kBlocksWithEdges = 32;  // that the seed draws, beside the first and the last

class RowSample {
 public:
  explicit RowSample(std::int64_t length) : length_(length) {}
  void add(std::int64_t row) {
    if (row >= 0 && row < length_) rows_.insert(row);
  }
  void add_edge(std::int64_t row) {
    for (std::int64_t near = row - 1; near <= row + 1; ++near) add(near);
  }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  [[nodiscard]] std::vector<std::int64_t> ascending() const { return {rows_.begin(), rows_.end()}; }

 private:
  std::int64_t length_;
  std::set<std::int64_t> rows_;
};

}  // namespace

std::uint64_t mixed(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;  // splitmix64
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

std::vector<std::int64_t> sample_rows(const oracles::AttentionConfig& config,
                                      std::int64_t length,
                                      std::uint64_t seed,
                                      const std::vector<std::int64_t>& wanted) {
  RowSample sample(length);
  for (const std::int64_t row : wanted) sample.add(row);
  for (const std::int64_t edge : {std::int64_t{0},
                                  config.l - 1,
                                  config.l - 1 + config.d,
                                  config.l_sel,
                                  2 * config.l_sel,
                                  config.w,
                                  2 * config.w,
                                  config.n_sel * config.l_sel,
                                  (config.n_sel + 1) * config.l_sel,
                                  length - 1}) {
    sample.add_edge(edge);
  }
  std::uint64_t state = mixed(seed);
  const auto draw = [&](std::int64_t below) {
    state = mixed(state);
    return static_cast<std::int64_t>(state % static_cast<std::uint64_t>(below));
  };
  const std::int64_t blocks = config.block_count(length);
  sample.add_edge((blocks - 1) * config.l_sel);
  for (std::int64_t i = 0; i < kBlocksWithEdges; ++i) sample.add_edge(draw(blocks) * config.l_sel);
  const std::int64_t most = std::min(length, sample.size() + kFewestRows);
  while (sample.size() < most) sample.add(draw(length));
  return sample.ascending();
}

}  // namespace harness::checks
