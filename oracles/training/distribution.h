// Tests of random numbers against a law, with bounds that hold for every count. Internal to
// initial_values.
#pragma once

#include <cstdint>
#include <vector>

#include "oracles/training/initial_values.h"

namespace oracles {

// A uniform or normal law, or uniform numbers of one sign.
struct Distribution {
  InitialLaw law;
  bool positive = false;  // uniform in 0 to size

  [[nodiscard]] double share_below(double x) const;
  [[nodiscard]] double quantile(double share) const;
  [[nodiscard]] double mean_square() const;
};

// Counts of the numbers between 255 places at which the law has equal shares. Places lie halfway
// between two numbers of the type.
class Places {
 public:
  static constexpr int kCells = 256;

  Places(const Distribution& distribution, Number number);
  [[nodiscard]] int cell(double x) const;
  // The law's share below the upper end of a cell.
  [[nodiscard]] double share_below(int cell) const {
    return shares_[static_cast<std::size_t>(cell)];
  }

 private:
  static constexpr int kGuesses = 4096;  // finer, of equal width: where to begin to look

  std::vector<double> ends_;
  std::vector<double> shares_;
  std::vector<int> guesses_;
  double low_ = 0;
  double scale_ = 0;
};

// What is kept of the numbers of a tensor; those of several tensors of one law add up.
struct Moments {
  std::int64_t count = 0;
  std::int64_t not_finite = 0;
  std::int64_t zeros = 0;
  double sum = 0;
  double squares = 0;
  double largest = 0;
  double lowest = 0;
  bool narrow = true;  // every number has the digits of bfloat16 only
  std::vector<std::int64_t> cells = std::vector<std::int64_t>(Places::kCells, 0);

  void add(double x, const Places& places);
  void add(const Moments& other);
};

Moments moments_of(const Numbers& values, const Places& places, int threads);

// Whether the law may have given numbers with these moments; false once in 1 / alarm models.
bool is_possible(const Moments& moments,
                 const Distribution& distribution,
                 const Places& places,
                 Number number,
                 double alarm);

}  // namespace oracles
