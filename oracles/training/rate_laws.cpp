#include "oracles/training/rate_laws.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "oracles/expected.h"

namespace oracles {
namespace {

struct At {
  const TrainConfig& config;
  std::int64_t accumulate;
  std::int64_t n;
  std::int64_t skipped;
  double recorded = 0;  // roundoff, relatively

  [[nodiscard]] bool rises() const { return n <= config.warmup; }
  [[nodiscard]] bool falls() const { return !rises() && n <= config.total; }
  [[nodiscard]] double bound(double rate) const {
    return 16 * 0x1p-53 * config.lr + recorded * rate;
  }
};
using Rate = std::optional<double>;

Rate rate_of(const At& at, std::int64_t n) {
  return n >= 1 ? Rate(learning_rate(at.config, n)) : std::nullopt;
}

// Along the whole of its way at `done` = 0 to 1.
double cosine(const At& at, double done) {
  return at.config.lr * (1 + std::cos(std::numbers::pi * done)) / 2;
}

const std::vector<WrongLaw<At>>& rules() {
  static const std::vector<WrongLaw<At>> kRules{
      {{"lr_of_step_before", "the learning rate of step n - 1"},
       [](const At& at) { return at.n == 1 ? Rate(0) : rate_of(at, at.n - 1); }},
      {{"lr_of_next_step", "the learning rate of step n + 1"},
       [](const At& at) { return rate_of(at, at.n + 1); }},
      {{"lr_without_warmup", "the full learning rate within the warm-up"},
       [](const At& at) { return at.rises() ? Rate(at.config.lr) : std::nullopt; }},
      {{"lr_does_not_fall", "the full learning rate after the warm-up"},
       [](const At& at) { return at.rises() ? std::nullopt : Rate(at.config.lr); }},
      {{"lr_falls_linearly", "the learning rate falls along a line, not along a cosine"},
       [](const At& at) {
         const TrainConfig& c = at.config;
         const double done =
             static_cast<double>(at.n - 1 - c.warmup) / static_cast<double>(c.total - c.warmup);
         return at.falls() ? Rate(c.lr * (1 - done)) : std::nullopt;
       }},
      {{"lr_cosine_from_step_one", "the cosine runs over all steps, those of the warm-up too"},
       [](const At& at) {
         const double done = static_cast<double>(at.n - 1) / static_cast<double>(at.config.total);
         return at.falls() ? Rate(cosine(at, done)) : std::nullopt;
       }},
      {{"lr_falls_to_a_tenth", "the cosine ends at a tenth of the learning rate, not at 0"},
       [](const At& at) {
         return at.rises() ? std::nullopt
                           : Rate(0.1 * at.config.lr + 0.9 * rate_of(at, at.n).value());
       }},
      {{"lr_of_micro_steps", "the schedule counts micro-batches"},
       [](const At& at) { return rate_of(at, at.n * at.accumulate); }},
      {{"lr_of_micro_steps_before",
        "the schedule counts micro-batches, up to the first of the step"},
       [](const At& at) { return rate_of(at, (at.n - 1) * at.accumulate + 1); }},
      {{"lr_counts_skipped", "the schedule counts steps that were skipped"},
       [](const At& at) { return rate_of(at, at.n + at.skipped); }},
      {{"lr_zero", "the learning rate is 0"}, [](const At&) { return Rate(0); }}};
  return kRules;
}

}  // namespace

std::span<const Law> rate_laws() {
  static const std::vector<Law> kLaws = laws_of(rules());
  return kLaws;
}

std::optional<double> rate_under(std::string_view law,
                                 const TrainConfig& config,
                                 std::int64_t accumulate,
                                 std::int64_t n,
                                 std::int64_t skipped) {
  const Rate rate = number_given_by(rules(), law, {config, accumulate, n, skipped});
  return rate == learning_rate(config, n) ? std::nullopt : rate;
}

Naming name_rates(const TrainConfig& config,
                  std::int64_t accumulate,
                  std::span<const RecordedRate> rates,
                  double recorded) {
  const auto at = [&](std::size_t i) {
    return At{config, accumulate, rates[i].n, rates[i].skipped, recorded};
  };
  const auto part = [&](std::size_t i) {
    const double right = learning_rate(config, rates[i].n);
    return FoundPart{{rates[i].rate}, one_number(right, at(i).bound(right))};
  };
  return name_parts(rules(), {rates.size(), part}, at);
}

}  // namespace oracles
