// Which tokens a rank gets, from docs/data.md alone: a pure function of seed, step, micro-batch,
// rank and world. Steps count from 1; micro-batches, ranks and rows count from 0.
// Legend: R = batch_size rows, S = seq_len, V = vocab_size.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "oracles/tensor.h"

namespace oracles {

enum class Source { text, uniform, long_range };

struct DataConfig {
  Source source = Source::uniform;
  std::uint64_t seed = 0;
  std::int64_t accumulate = 1;  // micro-batches of an optimiser step
  std::int64_t world = 1;       // ranks
  std::int64_t batch_size = 1;  // sequences in the micro-batch of one rank
  std::int64_t seq_len = 0;
  std::int64_t vocab_size = 256;  // of uniform and long_range; a text's tokens are its bytes
  std::int64_t distance = 0;      // of long_range: how far back the repeated token is
  double sharpness = 0;           // of long_range: probability that a token repeats, 0 to 1
  bool replicated = false;        // every rank gets the sequences of rank 0
  bool ragged = false;            // of the loss: only the first positions of a sequence are scored
  std::int64_t documents = 1;     // in each sequence (documents.h)
};

using Text = std::span<const unsigned char>;

// Throws std::invalid_argument that names the value found and what was wanted; `text` is looked at
// where the source is a text, which needs accumulate * world * batch_size windows.
void validate(const DataConfig& config, Text text);

struct BatchPlace {
  std::int64_t step = 1;
  std::int64_t micro = 0;
  std::int64_t rank = 0;
};

// Of a row of a batch: (((step - 1) * accumulate + micro) * world + rank) * batch_size + row; of
// replicated ones with rank = 0.
std::uint64_t sequence_number(const DataConfig& config, const BatchPlace& place, std::int64_t row);

// Where the window of a sequence begins in the text, in bytes. REQUIRES: a valid config and text.
std::int64_t window_begin(const DataConfig& config, Text text, std::uint64_t number);

// The tokens of one sequence [S], of any source.
void write_sequence(const DataConfig& config,
                    Text text,
                    std::uint64_t number,
                    std::span<std::int64_t> to);

// [R,S]. Throws std::invalid_argument where validate() does or the place is none of the run's.
IntTensor batch_tokens(const DataConfig& config, const BatchPlace& place, Text text = {});

// How many positions of each row the loss scores, the first ones: S-1, or of a ragged mask
// 1 + draw(2^64 - 1 - seed, sequence number) % (S-1). Of packed documents those without their last tokens, which are as many in
// every row. REQUIRES: S >= 2 and a place of the run.
std::vector<std::int64_t> scored_positions(const DataConfig& config, const BatchPlace& place);

// The mean of -ln p over all rows and s = 1 to S-1, or to what is scored of each row, p the probability that the source gave each
// token after those before it: what no model beats in the mean over many batches, in nats. None for
// a text. tokens [R,S], S >= 2.
std::optional<double> loss_floor(const DataConfig& config,
                                 const IntTensor& tokens,
                                 std::span<const std::int64_t> scored = {});

}  // namespace oracles
