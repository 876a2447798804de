// Cells whose times are compared over the nights: cases that only train and are measured, each launched several times.
#pragma once

#include <string>
#include <vector>

#include "harness/history/judge_nights.h"
#include "harness/scenario/case.h"

namespace harness::cli {

[[nodiscard]] bool is_timed(const Scenario& scenario);

class TimedCells {
 public:
  static constexpr std::size_t kLaunches = history::kFewestLaunches;
  static constexpr double kMostLaunches = 2.0 * kLaunches;  // with the rerun

  // `history_ids`: of the cases. The first history::kMostCells timed ones by their labels, so that they are the same every night
  // whatever the order of the cases, are launched several times, the others once.
  TimedCells(std::string database,
             const std::vector<Case>& cases,
             std::vector<std::string> history_ids);

  // Whether the point is launched once more after `made` launches: until there are kLaunches, and where they look different from
  // the cell's earlier nights until there are as many again. Throws: nsa::Error from the database.
  [[nodiscard]] bool again(std::size_t point, std::size_t made) const;

 private:
  [[nodiscard]] bool looks_different(const std::string& history_id) const;

  std::string database_;
  std::vector<std::string> history_ids_;  // "" of a point that is launched once
};

}  // namespace harness::cli
