#include "oracles/attention/block_scores.h"

#include <algorithm>

namespace oracles {

std::int64_t overlap(const AttentionConfig& config, std::int64_t i, std::int64_t j) {
  const std::int64_t begin = std::max(i * config.d, j * config.l_sel);
  const std::int64_t end = std::min(i * config.d + config.l, (j + 1) * config.l_sel);
  return std::max<std::int64_t>(0, end - begin);
}

OverlapMap::OverlapMap(const AttentionConfig& config, std::int64_t length) : begins_{0} {
  // fractional: overlap / sum of overlaps, which is l because a compressed token lies within the
  // blocks; overlap: overlap / d.
  const auto unit = static_cast<double>(config.eq9 == Eq9::fractional ? config.l : config.d);
  for (std::int64_t i = 0; i < config.compressed_count(length); ++i) {
    const std::int64_t first = i * config.d / config.l_sel;
    const std::int64_t last = (i * config.d + config.l - 1) / config.l_sel;
    for (std::int64_t j = first; j <= last; ++j) {
      entries_.push_back({j, static_cast<double>(overlap(config, i, j)) / unit});
      largest_ = std::max(largest_, entries_.back().weight);
    }
    begins_.push_back(entries_.size());
  }
}

void add_block_scores(const OverlapMap& map,
                      const std::vector<double>& p_hC,
                      std::int64_t heads,
                      std::span<double> scores_N) {
  const auto count = static_cast<std::int64_t>(p_hC.size()) / heads;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t c = 0; c < count; ++c) {
      for (const OverlapMap::Entry& entry : map.of(c)) {
        scores_N[entry.block] += p_hC[head * count + c] * entry.weight;
      }
    }
  }
}

}  // namespace oracles
