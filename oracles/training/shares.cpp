#include "oracles/training/shares.h"

#include <numeric>
#include <vector>

#include "oracles/expected.h"

namespace oracles {
namespace {

double real(std::int64_t count) {
  return static_cast<double>(count);
}

struct At {
  const DataConfig& config;
  TokenCounts tokens;

  [[nodiscard]] bool has_micros() const { return config.accumulate > 1; }
  [[nodiscard]] bool has_uneven_micros() const { return config.ragged && has_micros(); }
  [[nodiscard]] bool has_uneven_ranks() const { return config.ragged && config.world > 1; }
  [[nodiscard]] double right() const {
    return real(tokens.own * config.world) / real(tokens.of_step);
  }
  [[nodiscard]] double bound(double share) const { return 0x1p-20 * share; }
};

std::optional<double> where(bool has_meaning, double share) {
  return has_meaning ? std::optional(share) : std::nullopt;
}

const std::vector<WrongLaw<At>>& rules() {
  static const std::vector<WrongLaw<At>> kRules{
      {{"loss_not_divided", "the losses of the micro-batches are added up, not averaged"},
       [](const At& at) {
         return where(at.has_micros(), at.right() * real(at.config.accumulate));
       }},
      {{"loss_divided_twice", "the loss is divided by the number of micro-batches twice"},
       [](const At& at) {
         return where(at.has_micros(), at.right() / real(at.config.accumulate));
       }},
      {{"mean_of_micro_means",
        "the means of a rank's micro-batches are averaged, though their tokens differ"},
       [](const At& at) {
         return where(at.has_uneven_micros(),
                      real(at.tokens.of_rank * at.config.world) /
                          (real(at.tokens.of_step) * real(at.config.accumulate)));
       }},
      {{"mean_of_rank_means", "the means of the ranks are averaged, though their tokens differ"},
       [](const At& at) {
         return where(at.has_uneven_ranks(), real(at.tokens.own) / real(at.tokens.of_rank));
       }},
      {{"mean_of_means",
        "the means of all micro-batches of all ranks are averaged, though their tokens differ"},
       [](const At& at) {
         return where(at.has_uneven_micros() && at.has_uneven_ranks(),
                      1 / real(at.config.accumulate));
       }}};
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
  return At{config, token_counts(config, place)}.right();
}

std::span<const Law> share_laws() {
  static const std::vector<Law> kLaws = laws_of(rules());
  return kLaws;
}

std::optional<double> share_under(std::string_view law,
                                  const DataConfig& config,
                                  const BatchPlace& place) {
  return number_given_by(rules(), law, {config, token_counts(config, place)});
}

Naming name_share(double found, const DataConfig& config, const BatchPlace& place) {
  const At at{config, token_counts(config, place)};
  return name_number(rules(), at, found, at.right());
}

}  // namespace oracles
