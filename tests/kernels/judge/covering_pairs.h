// A small set of cases for many axes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace judge {

// Rows of axis values such that each pair of values of each pair of axes is in some row. Greedy, from a seed.
inline std::vector<std::vector<int>> covering_pairs(const std::vector<int>& sizes,
                                                    std::uint64_t seed) {
  const auto axes = static_cast<int>(sizes.size());
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::vector<char>>> open(axes, std::vector<std::vector<char>>(axes));
  std::int64_t left = 0;
  for (int a = 0; a < axes; ++a) {
    for (int b = a + 1; b < axes; ++b) {
      open[a][b].assign(static_cast<std::size_t>(sizes[a]) * sizes[b], 1);
      left += static_cast<std::int64_t>(sizes[a]) * sizes[b];
    }
  }
  const auto gain = [&](const std::vector<int>& row) {
    int sum = 0;
    for (int a = 0; a < axes; ++a) {
      for (int b = a + 1; b < axes; ++b)
        sum += open[a][b][static_cast<std::size_t>(row[a]) * sizes[b] + row[b]];
    }
    return sum;
  };
  std::vector<std::vector<int>> rows;
  while (left > 0) {
    std::vector<int> best;
    int best_gain = 0;
    for (int attempt = 0; attempt < 200; ++attempt) {
      std::vector<int> row(axes);
      for (int a = 0; a < axes; ++a) row[a] = static_cast<int>(random() % sizes[a]);
      // Each axis in turn takes its best value.
      for (int a = 0; a < axes && attempt % 4 == 0; ++a) {
        int value = row[a];
        int most = gain(row);
        for (row[a] = 0; row[a] < sizes[a]; ++row[a]) {
          if (gain(row) > most) {
            most = gain(row);
            value = row[a];
          }
        }
        row[a] = value;
      }
      if (gain(row) > best_gain) {
        best_gain = gain(row);
        best = row;
      }
    }
    if (best.empty()) continue;
    for (int a = 0; a < axes; ++a) {
      for (int b = a + 1; b < axes; ++b)
        open[a][b][static_cast<std::size_t>(best[a]) * sizes[b] + best[b]] = 0;
    }
    left -= best_gain;
    rows.push_back(best);
  }
  return rows;
}

}  // namespace judge
