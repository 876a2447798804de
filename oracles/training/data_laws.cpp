#include "oracles/training/data_laws.h"

#include <algorithm>
#include <string>
#include <utility>

#include "oracles/counter_random.h"
#include "oracles/training/data_rules.h"

namespace oracles {
namespace {

Misfit compared(const IntTensor& found, const IntTensor& wanted) {
  Misfit misfit;
  if (found.shape != wanted.shape || found.data.size() != wanted.data.size()) {
    const auto count = static_cast<std::int64_t>(found.data.size());
    return {count, std::max<std::int64_t>(count, 1), 0, 0};
  }
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    misfit.add(static_cast<std::int64_t>(i),
               static_cast<double>(found.data[i]),
               static_cast<double>(wanted.data[i]),
               0);
  }
  return misfit;
}

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

// None where the law misses a wrong batch.
std::optional<LawFit> fit(const DataRule& rule,
                          const DataConfig& config,
                          std::span<const RecordedBatch> batches,
                          const std::vector<Misfit>& right,
                          Text text) {
  LawFit found{rule.law, {}, 1, {}};
  std::int64_t wrong = 0;
  std::int64_t would_be = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto tokens = batch_of_rule(rule, config, batches[i].place, text);
    if (right[i].fits()) {
      would_be += tokens ? compared(batches[i].tokens, *tokens).wrong : 0;
      continue;
    }
    if (!tokens || !compared(batches[i].tokens, *tokens).fits()) {
      return std::nullopt;
    }
    found.misfit.judged += right[i].judged;
    wrong += right[i].wrong;
  }
  found.share = static_cast<double>(wrong) / static_cast<double>(wrong + would_be);
  return found;
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
  return batch_of_rule(rule_named(data_rules(), law), config, place, text);
}

Naming name_batches(const DataConfig& config, std::span<const RecordedBatch> batches, Text text) {
  Naming naming;
  std::vector<Misfit> right;
  for (const RecordedBatch& batch : batches) {
    right.push_back(compared(batch.tokens, batch_tokens(config, batch.place, text)));
    naming.right.add(right.back(), naming.right.judged);
  }
  if (naming.right.fits()) {
    return naming;
  }
  for (const DataRule& rule : data_rules()) {
    if (auto found = fit(rule, config, batches, right, text)) {
      naming.fitting.push_back(std::move(*found));
    }
  }
  keep_the_strongest(naming.fitting);
  if (naming.fitting.empty()) {
    if (auto found = other_sharpness(config, batches)) {
      naming.fitting.push_back(std::move(*found));
    }
  }
  return naming;
}

}  // namespace oracles
