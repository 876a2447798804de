#include "oracles/training/document_lengths.h"

#include <stdexcept>
#include <string>

#include "oracles/counter_random.h"

namespace oracles {
namespace {

std::int64_t below(std::uint64_t drawn, std::int64_t limit) {
  return static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(limit));
}

// Binary digits of a number above 0.
std::int64_t digits_of(std::int64_t number) {
  std::int64_t digits = 0;
  for (; number > 0; number /= 2) ++digits;
  return digits;
}

std::vector<std::int64_t> lengths_of(const DataConfig& config, std::uint64_t key) {
  const std::int64_t count = config.documents;
  const std::int64_t most = config.seq_len / (2 * (count - 1));
  std::vector<std::int64_t> drawn(static_cast<std::size_t>(count));
  std::int64_t rest = config.seq_len;
  for (std::int64_t i = 0; i + 1 < count; ++i) {
    const auto turn = static_cast<std::uint64_t>(2 * i + 2);
    std::int64_t power = 1;
    for (std::int64_t e = below(draw(key, turn), digits_of(most)); e > 0; --e) power *= 2;
    std::int64_t length = power + below(draw(key, turn + 1), power);
    if (length > most) length = most;
    drawn[static_cast<std::size_t>(i)] = length;
    rest -= length;
  }
  drawn.back() = rest;
  const std::int64_t first = below(draw(key, 0), count);
  std::vector<std::int64_t> lengths;
  for (std::int64_t j = 0; j < count; ++j) {
    lengths.push_back(drawn[static_cast<std::size_t>((j + first) % count)]);
  }
  return lengths;
}

}  // namespace

std::vector<std::vector<std::int64_t>> document_lengths(const DataConfig& config,
                                                        const BatchPlace& place) {
  if (config.documents < 1 || (config.documents > 1 && config.documents > config.seq_len / 2)) {
    throw std::invalid_argument("data: documents = " + std::to_string(config.documents) +
                                ", wanted 1 to " + std::to_string(config.seq_len / 2));
  }
  std::vector<std::vector<std::int64_t>> all;
  constexpr std::uint64_t kOfDocuments = std::uint64_t{1} << 62U;
  for (std::int64_t row = 0; config.documents > 1 && row < config.batch_size; ++row) {
    const std::uint64_t number = sequence_number(config, place, row);
    all.push_back(lengths_of(config, draw(config.seed ^ kOfDocuments, number)));
  }
  return all;
}

}  // namespace oracles
