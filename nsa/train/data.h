// Where training tokens come from. A batch is a pure function of (seed, step, micro-batch, rank, world): nothing is consumed,
// so any process can make any rank's batch. Tokens are bytes, or numbers below vocab_size for synthetic sources.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nsa/base/config.h"
#include "nsa/torch.h"

namespace nsa {

struct BatchShape {
  std::int64_t batch_size = 1;
  std::int64_t seq_len = 0;
  std::int64_t accumulate = 1;  // micro-batches a step
  std::int64_t vocab_size = 256;
  bool replicated = false;  // every rank gets the sequences of rank 0
};

// The number of a sequence in the whole run: distinct for every (step, micro-batch, rank, row), of replicated ones whatever the
// rank.
[[nodiscard]] std::uint64_t sequence_number(const BatchShape& shape,
                                            std::int64_t step,
                                            std::int64_t micro,
                                            int rank,
                                            int world,
                                            std::int64_t row);

// Of each row of a batch, how many of its first positions the loss scores; empty: all B*(S-1) that predict.
using Scored = std::vector<std::int64_t>;

class DataSource {
 public:
  virtual ~DataSource() = default;

  // [B,S] int64 on the CPU. Steps count from 1, micro-batches and ranks from 0.
  [[nodiscard]] virtual torch::Tensor batch(std::int64_t step,
                                            std::int64_t micro,
                                            int rank,
                                            int world) const = 0;
  // The hash of a text corpus, or the synthetic source's name and parameters.
  [[nodiscard]] virtual std::string identity() const = 0;
  // -mean log p(token | what came before) of these tokens over the scored positions, in nats; NaN where the source does not
  // know it (text).
  [[nodiscard]] virtual double floor_of(const torch::Tensor& tokens_BS,
                                        const Scored& scored_B) const = 0;
};

// Throws: Error when the corpus cannot be read, or has too few bytes for one step of `world` ranks.
[[nodiscard]] std::unique_ptr<DataSource> make_data_source(const DataConfig& config,
                                                           const BatchShape& shape,
                                                           std::int64_t seed,
                                                           int world);

}  // namespace nsa
