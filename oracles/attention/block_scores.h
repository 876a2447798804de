// Scores of selection blocks from the probabilities of compressed tokens (golden README, "Block
// scores", equation 9 of the paper): p_grp[j] = sum over heads and tokens of p_cmp[head,c] M[c,j].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracles/attention/config.h"

namespace oracles {

// Tokens that compressed token i and block j, taken as whole, share.
std::int64_t overlap(const AttentionConfig& config, std::int64_t i, std::int64_t j);

// The map M, without its zeros: entry (i, j) for consecutive blocks of each compressed token.
class OverlapMap {
 public:
  struct Entry {
    std::int64_t block;
    double weight;
  };
  OverlapMap(const AttentionConfig& config, std::int64_t length);

  // Of compressed token i, block ascending.
  [[nodiscard]] std::span<const Entry> of(std::int64_t i) const {
    return {entries_.data() + begins_[i], entries_.data() + begins_[i + 1]};
  }
  [[nodiscard]] std::int64_t tokens() const {
    return static_cast<std::int64_t>(begins_.size()) - 1;
  }
  // Upper bound of M.
  [[nodiscard]] double largest() const { return largest_; }

 private:
  std::vector<Entry> entries_;
  std::vector<std::size_t> begins_;
  double largest_ = 0;
};

// scores_N += p_hC M for the first C compressed tokens, summed head by head.
void add_block_scores(const OverlapMap& map,
                      const std::vector<double>& p_hC,
                      std::int64_t heads,
                      std::span<double> scores_N);

}  // namespace oracles
