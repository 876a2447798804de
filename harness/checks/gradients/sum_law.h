// Is the reduced gradient the mean of the ranks' local ones? |g - mean_r g_r| <= world * u * sum_r |g_r|, elementwise:
// bounded by what was added, not by what came out, so that cancellation is no false alarm. u is that of the type that travels
// between ranks where it is wider than the gradients' own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/checks/artefacts.h"

namespace harness::checks {

// Of bfloat16: 8 bits, rounded to nearest.
inline constexpr double kBf16Roundoff = 0x1p-8;

// One tensor of one rank against the law, with what is needed to see a constant factor.
struct SumOfTensor {
  std::string param;
  int bucket = -1;
  bool violated = false;
  double worst = 0.0;      // largest |g - mean| / bound; the limit is 1
  double with_mean = 0.0;  // <g, mean>
  double mean_mean = 0.0;  // <mean, mean>
  double unit_roundoff = 0.0;
};

// REQUIRES: `locals` are not empty. `travelling` is the unit roundoff of what ranks send each other, 0 where that is of the
// gradients' own type. Throws: nsa::Error where dtypes or sizes do not fit.
[[nodiscard]] SumOfTensor compare_with_mean(const nsa::TensorView& reduced,
                                            const std::vector<nsa::TensorView>& locals,
                                            double travelling = 0.0);

// What of a sum can have the digits of bfloat16 alone, where its own type has more.
struct Narrowed {
  bool sums =
      false;  // every number is one of bfloat16, as near to the mean as adding such numbers allows
  bool addends =
      false;  // it is the sum of g_r / world, each rounded to the nearest number of bfloat16
};
[[nodiscard]] Narrowed narrowed_to_bf16(const nsa::TensorView& reduced,
                                        const std::vector<nsa::TensorView>& locals);

// ||g - factor * mean|| / (|factor| ||mean||), 0 where both are zero.
[[nodiscard]] double factor_residual(const nsa::TensorView& reduced,
                                     const std::vector<nsa::TensorView>& locals,
                                     double factor);

// The one factor by which all of `params` in `own` differ from `other`, with next to nothing left; none where there is no such
// factor, it is 1, or one of the files lacks a tensor.
[[nodiscard]] std::optional<double> constant_factor(const nsa::SafetensorsFile& own,
                                                    const nsa::SafetensorsFile& other,
                                                    const std::vector<std::string>& params);

}  // namespace harness::checks
