#include "nsa/train/loss_mask.h"

#include <numeric>

#include "nsa/train/counter_random.h"

namespace nsa {

LossMask::LossMask(const DataConfig& config, const BatchShape& shape, std::int64_t seed, int world)
    : config_(config), shape_(shape), key_(~static_cast<std::uint64_t>(seed)), world_(world) {}

Scored LossMask::scored(std::int64_t step, std::int64_t micro, int rank) const {
  Scored scored_B;
  if (!is_ragged()) return scored_B;
  const auto predicting = static_cast<std::uint64_t>(shape_.seq_len - 1);
  for (std::int64_t row = 0; row < shape_.batch_size; ++row) {
    const std::uint64_t drawn = draw(key_, sequence_number(shape_, step, micro, rank, world_, row));
    scored_B.push_back(1 + static_cast<std::int64_t>(drawn % predicting));
  }
  return scored_B;
}

std::int64_t LossMask::tokens(std::int64_t step, std::int64_t micro, int rank) const {
  // The last token of every document predicts nothing.
  if (!is_ragged()) return shape_.batch_size * (shape_.seq_len - config_.packed);
  const Scored scored_B = scored(step, micro, rank);
  return std::accumulate(scored_B.begin(), scored_B.end(), std::int64_t{0});
}

double LossMask::weight(std::int64_t step, std::int64_t micro, int rank) const {
  return is_ragged() ? static_cast<double>(tokens(step, micro, rank)) : 1.0;
}

torch::Tensor LossMask::share(const torch::Tensor& mean,
                              std::int64_t step,
                              std::int64_t micro,
                              int rank) const {
  if (!is_ragged()) return shape_.accumulate == 1 ? mean : mean / shape_.accumulate;
  std::int64_t all = 0;
  for (int of_rank = 0; of_rank < world_; ++of_rank) {
    for (std::int64_t other = 0; other < shape_.accumulate; ++other) {
      all += tokens(step, other, of_rank);
    }
  }
  const auto own = static_cast<double>(tokens(step, micro, rank) * world_);
  return mean * (own / static_cast<double>(all));
}

}  // namespace nsa
