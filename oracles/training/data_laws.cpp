#include "oracles/training/data_laws.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "oracles/counter_random.h"
#include "oracles/training/data_rules.h"

namespace oracles {
namespace {

// Which probabilities of a repetition would give these tokens: [above, up_to].
struct SharpnessInterval {
  double above = 0;
  double up_to = 1;
  bool possible = true;
};

void narrow(SharpnessInterval& interval,
            const DataConfig& config,
            std::uint64_t number,
            const std::int64_t* token) {
  const std::uint64_t key = draw(config.seed, number);
  for (std::int64_t s = 0; s < config.seq_len; ++s) {
    const auto place = static_cast<std::uint64_t>(s);
    const auto vocabulary = static_cast<std::uint64_t>(config.vocab_size);
    const bool fresh = token[s] == static_cast<std::int64_t>(draw(key, 2 * place + 1) % vocabulary);
    const bool repeated = s >= config.distance && token[s] == token[s - config.distance];
    const double u = unit(draw(key, 2 * place));
    if (!fresh && !repeated) {
      interval.possible = false;
    } else if (!fresh) {
      interval.above = std::max(interval.above, u);
    } else if (!repeated && s >= config.distance) {
      interval.up_to = std::min(interval.up_to, u);
    }
  }
}

std::optional<LawFit> other_sharpness(const DataConfig& config,
                                      std::span<const RecordedBatch> batches) {
  if (config.source != Source::long_range) {
    return std::nullopt;
  }
  SharpnessInterval interval;
  std::int64_t tokens = 0;
  for (const RecordedBatch& batch : batches) {
    if (batch.tokens.shape != Shape{config.batch_size, config.seq_len}) {
      return std::nullopt;
    }
    for (std::int64_t row = 0; row < config.batch_size; ++row) {
      narrow(interval,
             config,
             sequence_number(config, batch.place, row),
             batch.tokens.data.data() + row * config.seq_len);
    }
    tokens += config.batch_size * config.seq_len;
  }
  if (!interval.possible || interval.above >= interval.up_to) {
    return std::nullopt;
  }
  return LawFit{
      {"data_sharpness_other", "tokens repeat with another probability", /*fitted=*/true},
      {.judged = tokens},
      1,
      "between " + std::to_string(interval.above) + " and " + std::to_string(interval.up_to)};
}

// A batch of another shape is wrong wholly.
FoundPart part_of(const RecordedBatch& batch, const IntTensor& right) {
  std::vector<double> found(batch.tokens.data.begin(), batch.tokens.data.end());
  if (batch.tokens.shape != right.shape) std::fill(found.begin(), found.end(), NAN);
  return {std::move(found), exact(right)};
}

}  // namespace

std::span<const Law> data_laws() {
  static const std::vector<Law> kLaws = laws_of(data_rules());
  return kLaws;
}

std::optional<IntTensor> batch_under(std::string_view law,
                                     const DataConfig& config,
                                     const BatchPlace& place,
                                     Text text) {
  const auto given = given_by(data_rules(), law, {config, place, text});
  if (!given) return std::nullopt;
  const Tensor& value = given->value;
  return IntTensor{value.shape, {value.data.begin(), value.data.end()}};
}

Naming name_batches(const DataConfig& config, std::span<const RecordedBatch> batches, Text text) {
  const auto part = [&](std::size_t i) {
    return part_of(batches[i], batch_tokens(config, batches[i].place, text));
  };
  Naming naming = name_parts(
      data_rules(), {.count = batches.size(), .part = part, .together = 0}, [&](std::size_t i) {
        return BatchFacts{config, batches[i].place, text};
      });
  if (!naming.right.fits() && naming.fitting.empty()) {
    if (auto found = other_sharpness(config, batches)) {
      naming.fitting.push_back(std::move(*found));
    }
  }
  return naming;
}

}  // namespace oracles
