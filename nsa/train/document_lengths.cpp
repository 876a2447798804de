#include "nsa/train/document_lengths.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "nsa/train/counter_random.h"

namespace nsa {
namespace {

constexpr std::uint64_t kOfDocuments = 0x4000000000000000U;

}  // namespace

Documents::Documents(const DataConfig& config,
                     const BatchShape& shape,
                     std::int64_t seed,
                     int world)
    : count_(config.packed),
      shape_(shape),
      key_(static_cast<std::uint64_t>(seed) ^ kOfDocuments),
      world_(world) {}

DocumentLengths Documents::lengths(std::int64_t step, std::int64_t micro, int rank) const {
  DocumentLengths all;
  if (count_ < 2) return all;
  for (std::int64_t row = 0; row < shape_.batch_size; ++row) {
    all.push_back(of_sequence(sequence_number(shape_, step, micro, rank, world_, row)));
  }
  return all;
}

std::vector<std::int64_t> Documents::of_sequence(std::uint64_t number) const {
  const std::uint64_t key = draw(key_, number);
  const auto most = static_cast<std::uint64_t>(shape_.seq_len / (2 * (count_ - 1)));
  const auto digits = static_cast<std::uint64_t>(std::bit_width(most));
  std::vector<std::int64_t> lengths;
  for (std::uint64_t i = 1; i < static_cast<std::uint64_t>(count_); ++i) {
    const std::uint64_t power = std::uint64_t{1} << (draw(key, 2 * i) % digits);
    const std::uint64_t drawn = power + draw(key, 2 * i + 1) % power;
    lengths.push_back(static_cast<std::int64_t>(std::min(most, drawn)));
  }
  lengths.push_back(shape_.seq_len -
                    std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  const auto first = draw(key, 0) % static_cast<std::uint64_t>(count_);
  std::rotate(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(first), lengths.end());
  return lengths;
}

}  // namespace nsa
