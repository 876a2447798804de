// Which known wrong laws reproduce what was recorded of one stage: row by row, every row that is
// wrong, within the same limit. No fault and no implementation is known here.
// A vector is what one head (or group, or sequence) holds for one row: the last dimension.
#pragma once

#include <cstddef>
#include <vector>

#include "oracles/attention/stages.h"
#include "oracles/naming.h"

namespace oracles {

// How far a number may be from the right one and still count as right.
struct Allowed {
  double relative = 0;       // to the largest number of the tensor that it is compared with,
  double scale = 0;          // or to this where that is smaller
  double unit_roundoff = 0;  // of the type that was recorded

  [[nodiscard]] double of(const Tensor& wanted) const;
};

// Largest magnitude of the finite numbers.
double finite_scale(const Tensor& tensor);

// Vectors of `found` that differ from `wanted` by more than `limit` in some number; a NaN differs.
// Where `wanted` is not finite, an input was not, and nothing is wrong here.
std::vector<std::size_t> wrong_vectors(const Tensor& found, const Tensor& wanted, double limit);

// Vectors of `found` that refute a law whose output is `output`: it is another one there, and the right one is further from it than
// two right numbers may be.
std::vector<std::size_t> refuting_vectors(const Tensor& found,
                                          const Tensor& wanted,
                                          const Tensor& output,
                                          const Allowed& allowed);

// `found` was recorded, `wanted` is right, `wrong` are vectors of it that are wrong: all of them,
// or those that have to be explained. Known laws are tried first; where none fits, patterns that
// are fitted to the numbers: a constant factor, a rounding to bfloat16, heads in another order.
// LawFit::share counts (batch, group, row): in which the law holds, of those in which it would
// show, in the heads that are wrong anywhere. Laws that hold everywhere, in all heads, exclude the
// others: nothing that was recorded asks for a law that gives more wrong rows than there are.
Naming name_stage(const Stages& stages,
                  Stage stage,
                  const Tensor& found,
                  const Tensor& wanted,
                  const std::vector<std::size_t>& wrong,
                  const Allowed& allowed);

// The patterns alone, of any tensor. `lanes` are the heads or groups of one sequence, 0 where the
// tensor has none.
std::vector<LawFit> fitted_patterns(const Tensor& found,
                                    const Tensor& wanted,
                                    const std::vector<std::size_t>& wrong,
                                    std::int64_t lanes,
                                    const Allowed& allowed);

bool is_pattern(std::string_view name);  // one of these
// Of another tensor: does `found`, which is right, refute it? `number` as in LawFit.
bool refutes_pattern(std::string_view name,
                     double number,
                     const Tensor& found,
                     const Tensor& wanted,
                     const Allowed& allowed);

}  // namespace oracles
