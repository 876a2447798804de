// What ranks sampled of one metric, by rank and step; of a step that was done twice (another life) the later sample counts.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "harness/checks/result.h"

namespace harness::checks {

using RankStep = std::pair<int, std::int64_t>;
using Series = Latest<RankStep, Sample>;

[[nodiscard]] inline Series series_of(const Evidence& evidence, std::string_view metric) {
  Series series;
  for (const auto& row : evidence.samples) {
    if (row.process >= 0 && row.row.metric == metric) {
      series.put({row.process, row.row.step}, row);
    }
  }
  return series;
}

}  // namespace harness::checks
