#include "oracles/training/shares.h"

#include <cmath>
#include <numeric>
#include <vector>

namespace oracles {
namespace {

double real(std::int64_t count) {
  return static_cast<double>(count);
}

struct At {
  const DataConfig& config;
  TokenCounts tokens;
};

struct ShareRule {
  Law law;
  bool (*has_meaning)(const At& at);
  double (*share)(const At& at);
};

bool with_micros(const At& at) {
  return at.config.accumulate > 1;
}
bool with_uneven_micros(const At& at) {
  return at.config.ragged && at.config.accumulate > 1;
}
bool with_uneven_ranks(const At& at) {
  return at.config.ragged && at.config.world > 1;
}

double right_share(const At& at) {
  return real(at.tokens.own * at.config.world) / real(at.tokens.of_step);
}

const std::vector<ShareRule>& rules() {
  static const std::vector<ShareRule> kRules{
      {{"loss_not_divided", "the losses of the micro-batches are added up, not averaged"},
       with_micros,
       [](const At& at) { return right_share(at) * real(at.config.accumulate); }},
      {{"loss_divided_twice", "the loss is divided by the number of micro-batches twice"},
       with_micros,
       [](const At& at) { return right_share(at) / real(at.config.accumulate); }},
      {{"mean_of_micro_means",
        "the means of a rank's micro-batches are averaged, though their tokens differ"},
       with_uneven_micros,
       [](const At& at) {
         return real(at.tokens.of_rank * at.config.world) /
                (real(at.tokens.of_step) * real(at.config.accumulate));
       }},
      {{"mean_of_rank_means", "the means of the ranks are averaged, though their tokens differ"},
       with_uneven_ranks,
       [](const At& at) { return real(at.tokens.own) / real(at.tokens.of_rank); }},
      {{"mean_of_means",
        "the means of all micro-batches of all ranks are averaged, though their tokens differ"},
       [](const At& at) { return with_uneven_micros(at) && with_uneven_ranks(at); },
       [](const At& at) { return 1 / real(at.config.accumulate); }}};
  return kRules;
}

}  // namespace

TokenCounts token_counts(const DataConfig& config, const BatchPlace& place) {
  TokenCounts counts;
  for (std::int64_t rank = 0; rank < config.world; ++rank) {
    for (std::int64_t micro = 0; micro < config.accumulate; ++micro) {
      const std::vector<std::int64_t> rows = scored_positions(config, {place.step, micro, rank});
      // Of each sequence, the last token of every document but the last one's, which predicts nothing anyhow.
      const std::int64_t ends = config.batch_size * (config.documents - 1);
      const std::int64_t tokens = std::accumulate(rows.begin(), rows.end(), -ends);
      counts.of_step += tokens;
      if (rank != place.rank) continue;
      counts.of_rank += tokens;
      if (micro == place.micro) counts.own = tokens;
    }
  }
  return counts;
}

double share_of(const DataConfig& config, const BatchPlace& place) {
  return right_share({config, token_counts(config, place)});
}

std::span<const Law> share_laws() {
  static const std::vector<Law> kLaws = laws_of(rules());
  return kLaws;
}

std::optional<double> share_under(std::string_view law,
                                  const DataConfig& config,
                                  const BatchPlace& place) {
  const ShareRule& rule = rule_named(rules(), law);
  const At at{config, token_counts(config, place)};
  return rule.has_meaning(at) ? std::optional(rule.share(at)) : std::nullopt;
}

Naming name_share(double found, const DataConfig& config, const BatchPlace& place) {
  const At at{config, token_counts(config, place)};
  Naming naming;
  for (const ShareRule& rule : rules()) {
    if (!rule.has_meaning(at)) continue;
    const double wanted = rule.share(at);
    if (std::abs(found - wanted) <= 0x1p-20 * wanted)
      naming.fitting.push_back({rule.law, {}, 1, {}});
  }
  return naming;
}

}  // namespace oracles
