#include "harness/cli/nightly/budget.h"

#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::cli {
namespace {

// "3 h", "8 min"
std::string span_text(std::chrono::milliseconds span) {
  constexpr std::int64_t kMinute = 60'000;
  constexpr std::int64_t kHour = 60 * kMinute;
  const std::int64_t ms = span.count();
  if (ms % kHour == 0) return std::to_string(ms / kHour) + " h";
  return nsa::to_text(static_cast<double>(ms) / kMinute, 3) + " min";
}

}  // namespace

std::chrono::milliseconds read_budget(const std::string& text) {
  constexpr double kHourMs = 3'600'000.0;
  constexpr double kMinuteMs = 60'000.0;
  constexpr double kMostHours = 24.0;
  const bool unit = !text.empty() && (text.back() == 'h' || text.back() == 'm');
  const auto number = nsa::parse_double(unit ? text.substr(0, text.size() - 1) : text);
  const double ms = number.value_or(0.0) * (unit && text.back() == 'm' ? kMinuteMs : kHourMs);
  if (!(ms >= 1000.0) || !(ms <= kMostHours * kHourMs)) {
    throw nsa::Error("--budget: found \"" + text +
                     "\", wanted hours (3, 2.5, 3h) or minutes (8m), at most 24 hours");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(ms));
}

// The reason is the same for every case, so that a report tells all of them in one line.
std::string NightBudget::cut(std::size_t point, Clock::duration gone) const {
  const std::chrono::duration<double> end =
      gone + std::chrono::duration<double>(seconds_.at(point));
  if (end <= budget_) return "";
  return "the night's budget of " + span_text(budget_) + " did not suffice for it";
}

}  // namespace harness::cli
