#include "nsa/train/data.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "nsa/base/corpus.h"
#include "nsa/base/error.h"
#include "nsa/base/hash.h"
#include "nsa/base/text.h"
#include "nsa/train/counter_random.h"

namespace nsa {
namespace {

// Windows of the concatenated files, each used once before any comes again.
class TextSource : public DataSource {
 public:
  TextSource(const DataConfig& config, const BatchShape& shape, std::int64_t seed, int world)
      : shape_(shape),
        text_(read_corpus(find_corpus(config.text))),
        identity_("text " + hash_hex(text_)) {
    windows_ = static_cast<std::uint64_t>(text_.size()) / static_cast<std::uint64_t>(shape.seq_len);
    const auto a_step = static_cast<std::uint64_t>(shape.accumulate * world * shape.batch_size);
    if (windows_ < a_step) {
      throw Error(
          "training.data.text: found " + std::to_string(text_.size()) + " bytes, wanted at least " +
          std::to_string(a_step * static_cast<std::uint64_t>(shape.seq_len)) + " for one step");
    }
    const auto key = static_cast<std::uint64_t>(seed);
    offset_ = draw(key, 0) % windows_;
    stride_ = draw(key, 1) % windows_;
    while (std::gcd(stride_, windows_) != 1) {
      ++stride_;
    }
  }

  torch::Tensor batch(std::int64_t step, std::int64_t micro, int rank, int world) const override {
    auto tokens_BS = torch::empty({shape_.batch_size, shape_.seq_len}, torch::kLong);
    auto tokens = tokens_BS.accessor<std::int64_t, 2>();
    for (std::int64_t row = 0; row < shape_.batch_size; ++row) {
      // i -> (stride i + offset) mod windows permutes the windows, since the stride is coprime to their number.
      const auto index = sequence_number(shape_, step, micro, rank, world, row) % windows_;
      const auto window = static_cast<std::uint64_t>(
          (static_cast<unsigned __int128>(stride_) * index + offset_) % windows_);
      for (std::int64_t s = 0; s < shape_.seq_len; ++s) {
        const auto at =
            window * static_cast<std::uint64_t>(shape_.seq_len) + static_cast<std::uint64_t>(s);
        tokens[row][s] = static_cast<unsigned char>(text_[at]);
      }
    }
    return tokens_BS;
  }
  std::string identity() const override { return identity_; }
  double floor_of(const torch::Tensor& /*tokens_BS*/, const Scored& /*scored_B*/) const override {
    return std::numeric_limits<double>::quiet_NaN();
  }

 private:
  BatchShape shape_;
  std::string text_;
  std::string identity_;
  std::uint64_t windows_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t stride_ = 1;
};

// Each token repeats the one `distance` back with probability `sharpness`, else is uniform over the vocabulary; a distance
// of 0 makes every token uniform.
class SyntheticSource : public DataSource {
 public:
  SyntheticSource(const DataConfig& config, const BatchShape& shape, std::int64_t seed)
      : shape_(shape), seed_(static_cast<std::uint64_t>(seed)) {
    if (config.source == DataConfig::Source::long_range) {
      distance_ = config.distance;
      sharpness_ = config.sharpness;
    }
  }

  torch::Tensor batch(std::int64_t step, std::int64_t micro, int rank, int world) const override {
    auto tokens_BS = torch::empty({shape_.batch_size, shape_.seq_len}, torch::kLong);
    auto tokens = tokens_BS.accessor<std::int64_t, 2>();
    for (std::int64_t row = 0; row < shape_.batch_size; ++row) {
      const std::uint64_t key = draw(seed_, sequence_number(shape_, step, micro, rank, world, row));
      for (std::int64_t s = 0; s < shape_.seq_len; ++s) {
        const auto at = static_cast<std::uint64_t>(s);
        const bool repeats = repeats_at(s) && unit(draw(key, 2 * at)) < sharpness_;
        tokens[row][s] =
            repeats ? tokens[row][s - distance_]
                    : static_cast<std::int64_t>(draw(key, 2 * at + 1) %
                                                static_cast<std::uint64_t>(shape_.vocab_size));
      }
    }
    return tokens_BS;
  }

  std::string identity() const override {
    return distance_ == 0 ? "uniform"
                          : "long_range " + std::to_string(distance_) + " " + to_text(sharpness_);
  }

  double floor_of(const torch::Tensor& tokens_BS, const Scored& scored_B) const override {
    const auto tokens = tokens_BS.accessor<std::int64_t, 2>();
    const auto vocabulary = static_cast<double>(shape_.vocab_size);
    // There are three probabilities, and a step has thousands of tokens.
    const double log_uniform = std::log(1.0 / vocabulary);
    const double log_other = std::log((1.0 - sharpness_) / vocabulary);
    const double log_repeated = std::log((1.0 - sharpness_) / vocabulary + sharpness_);
    double sum = 0.0;
    std::int64_t scored = 0;
    for (std::int64_t row = 0; row < tokens.size(0); ++row) {
      const std::int64_t last =
          scored_B.empty() ? tokens.size(1) - 1 : scored_B[static_cast<std::size_t>(row)];
      scored += last;
      for (std::int64_t s = 1; s <= last; ++s) {
        if (!repeats_at(s)) {
          sum -= log_uniform;
        } else {
          sum -= tokens[row][s] == tokens[row][s - distance_] ? log_repeated : log_other;
        }
      }
    }
    return sum / static_cast<double>(scored);
  }

 private:
  [[nodiscard]] bool repeats_at(std::int64_t s) const { return distance_ > 0 && s >= distance_; }

  BatchShape shape_;
  std::uint64_t seed_;
  std::int64_t distance_ = 0;
  double sharpness_ = 0.0;
};

}  // namespace

std::uint64_t sequence_number(const BatchShape& shape,
                              std::int64_t step,
                              std::int64_t micro,
                              int rank,
                              int world,
                              std::int64_t row) {
  const std::int64_t micro_batch = (step - 1) * shape.accumulate + micro;
  const int of_rank = shape.replicated ? 0 : rank;
  return static_cast<std::uint64_t>((micro_batch * world + of_rank) * shape.batch_size + row);
}

std::unique_ptr<DataSource> make_data_source(const DataConfig& config,
                                             const BatchShape& shape,
                                             std::int64_t seed,
                                             int world) {
  if (config.source == DataConfig::Source::text) {
    return std::make_unique<TextSource>(config, shape, seed, world);
  }
  return std::make_unique<SyntheticSource>(config, shape, seed);
}

}  // namespace nsa
