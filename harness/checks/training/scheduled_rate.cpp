#include "harness/checks/training/scheduled_rate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

namespace harness::checks {
namespace {

// Of a learning rate computed in double by another program.
constexpr double kRounding = 1e-12;

bool is_near(const nsa::OptimizerConfig& config, double found, double wanted) {
  return std::abs(found - wanted) <= kRounding * std::max(config.lr, wanted);
}

bool hold(const nsa::OptimizerConfig& config,
          const std::vector<AppliedRate>& rates,
          const std::function<double(const AppliedRate&)>& law) {
  return std::all_of(rates.begin(), rates.end(), [&](const AppliedRate& rate) {
    return is_near(config, rate.found, law(rate));
  });
}

// A floor is drawn from one rate: it takes more to see one.
constexpr std::size_t kFewestForAFloor = 3;

// The rate stays where the warm-up left it.
bool stays_largest(const nsa::OptimizerConfig& config, const std::vector<AppliedRate>& rates) {
  return hold(config, rates, [&](const AppliedRate&) { return config.lr; });
}

// The cosine ends at a floor: found = floor + (1 - floor / lr) * scheduled.
bool ends_at_floor(const nsa::OptimizerConfig& config, const std::vector<AppliedRate>& rates) {
  const AppliedRate& last = rates.back();
  const double wanted = scheduled_rate(config, last.number);
  const double floor = (last.found - wanted) / (1.0 - wanted / config.lr);
  if (!(floor > 0.0)) return false;
  return hold(config, rates, [&](const AppliedRate& rate) {
    return floor + (1.0 - floor / config.lr) * scheduled_rate(config, rate.number);
  });
}

// The rate follows the schedule down to a floor and stays there.
bool stays_at_floor(const nsa::OptimizerConfig& config, const std::vector<AppliedRate>& rates) {
  const double floor = rates.back().found;
  if (!(floor > scheduled_rate(config, rates.back().number))) return false;
  return hold(config, rates, [&](const AppliedRate& rate) {
    return std::max(floor, scheduled_rate(config, rate.number));
  });
}

}  // namespace

double scheduled_rate(const nsa::OptimizerConfig& config, std::int64_t step) {
  const auto done = static_cast<double>(step - 1);
  const auto warmup = static_cast<double>(config.warmup);
  if (done < warmup) return config.lr * (done + 1.0) / warmup;
  if (step > config.total) return 0.0;
  const double share = (done - warmup) / (static_cast<double>(config.total) - warmup);
  return config.lr * (1.0 + std::cos(std::numbers::pi * share)) / 2.0;
}

bool is_scheduled(const nsa::OptimizerConfig& config, const AppliedRate& rate) {
  return is_near(config, rate.found, scheduled_rate(config, rate.number));
}

RateLaw explain_rates(const nsa::OptimizerConfig& config,
                      std::int64_t accumulate,
                      const std::vector<AppliedRate>& rates) {
  const auto at = [&](auto number_of) {
    return hold(config, rates, [&, number_of](const AppliedRate& rate) {
      return scheduled_rate(config, number_of(rate));
    });
  };
  if (hold(config, rates, [](const AppliedRate&) { return 0.0; })) {
    return {"zero"};
  }
  // Counted before, or after, the micro-batches of the step.
  const bool micro =
      at([&](const AppliedRate& rate) { return rate.number * accumulate; }) ||
      at([&](const AppliedRate& rate) { return (rate.number - 1) * accumulate + 1; });
  if (accumulate > 1 && micro) {
    return {"micro_steps"};
  }
  if (at([](const AppliedRate& rate) { return rate.step; })) {
    return {"skipped_steps"};
  }
  if (stays_largest(config, rates)) return {"never_falls"};
  const bool floor = rates.size() >= kFewestForAFloor &&
                     (ends_at_floor(config, rates) || stays_at_floor(config, rates));
  if (floor) return {"never_falls", /*fitted=*/true};
  return {};
}

}  // namespace harness::checks
