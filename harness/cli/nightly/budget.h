// The time a night may take. What would not be over in time is not begun.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace harness::cli {

// "3h", "8m", "2.5" (hours). Throws: nsa::Error.
[[nodiscard]] std::chrono::milliseconds read_budget(const std::string& text);

class NightBudget {
 public:
  using Clock = std::chrono::steady_clock;

  // `seconds`: of each point, the most that it may take.
  NightBudget(std::chrono::milliseconds budget, std::vector<double> seconds)
      : begun_(Clock::now()), budget_(budget), seconds_(std::move(seconds)) {}

  // Why the point is not begun, "" where it would be over in time. From any thread.
  [[nodiscard]] std::string cut(std::size_t point) const {
    return cut(point, Clock::now() - begun_);
  }
  [[nodiscard]] std::string cut(std::size_t point, Clock::duration gone) const;

 private:
  Clock::time_point begun_;
  std::chrono::milliseconds budget_;
  std::vector<double> seconds_;
};

}  // namespace harness::cli
