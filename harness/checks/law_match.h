// Which known wrong law reproduces what was recorded: vector by vector, every vector that is wrong, within the same ceiling.
// No fault and no scenario is known here. A vector is what one head (or group, or sequence) holds for one row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/tensor.h"

namespace harness::checks {

inline constexpr std::size_t kMostRows = 4096;  // of a site: a finding stays a page of text

// Vectors of `found` that differ from `wanted` by more than `limit` in some element; a NaN differs. Where `wanted` is
// not finite, an input was not, and nothing is wrong here. The vectors are the last dimension's.
[[nodiscard]] std::vector<std::size_t> wrong_vectors(const oracles::Tensor& found,
                                                     const oracles::Tensor& wanted,
                                                     double limit);

struct Law {
  std::string name;
  std::string code = "NUMERIC.FORWARD";
  std::string about = {};  // what is done there, in words
  std::string op = {};     // where another operation than the stage's own is to blame
  std::string param = {};  // likewise
  double share = 0.0;      // wrong vectors among those that would be wrong under the law
};

// What is wrong with one tensor, and the laws that were found to give exactly that.
class Explanation {
 public:
  // Refers to its arguments. `relative_limit` times the scale is what a law may be off by.
  Explanation(const oracles::Tensor& found,
              const oracles::Tensor& wanted,
              const std::vector<std::size_t>& wrong,
              double relative_limit);

  // Keeps the law when its output has every wrong vector.
  void consider(Law law, const oracles::Tensor& output);
  // found = factor * wanted.
  void consider_factor();
  // found = wanted, rounded to bfloat16.
  void consider_bfloat16();
  // Vector (lane, row) of `found` is that of another lane of `wanted`, the same other one in all rows. `lanes` are those of
  // one sequence.
  void consider_lanes(std::int64_t lanes, const std::string& noun);

  // The law, where one is found, or several that stand for one code: rows on which they coincide cannot tell them apart.
  [[nodiscard]] std::optional<Law> law() const;

 private:
  [[nodiscard]] bool same(const oracles::Tensor& output, std::size_t vector, double limit) const;
  [[nodiscard]] bool all_same(const oracles::Tensor& output, double limit) const;
  [[nodiscard]] std::optional<std::int64_t> source_of(std::int64_t lane,
                                                      std::int64_t lanes,
                                                      const std::vector<std::size_t>& wrong) const;

  const oracles::Tensor& found_;
  const oracles::Tensor& wanted_;
  const std::vector<std::size_t>& wrong_;
  double relative_limit_;
  double scale_;
  std::vector<Law> laws_;
};

// The code that a law of oracles/key_laws.h stands for: MASK.ALIGNMENT, MASK.POLARITY, MASK.ABSENT, else NUMERIC.FORWARD.
[[nodiscard]] std::string code_of_key_law(std::string_view law);

}  // namespace harness::checks
