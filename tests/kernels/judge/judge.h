// Compares an outcome with the truth, by an error budget that the independently rounded computation gives:
//   max|X-R| <= f max|L-R| + 4 ulp of max(|R|, spread)      over a tensor, a head, a row; f = 2, for gradients 3
//   rms(X-R) <= 1.5 rms(L-R) + ulp/64 of rms(max(|R|, spread))   over a tensor and a head
// X tested, R true, L rounded; a NaN passes nothing. Blocks must be the oracle's, up to proven ties.
#pragma once

#include "tests/kernels/judge/case.h"
#include "tests/kernels/judge/rounded.h"

namespace judge {

struct Measure {
  std::string tensor;
  double worst = 0;   // largest of error / limit
  double error = 0;   // max|X-R| / max|R| over the tensor
  double budget = 0;  // max|L-R| / max|R|
};

struct Verdict {
  std::vector<std::string> failures;
  std::vector<Measure> measures;
  std::int64_t tied_rows = 0;
};

struct Compared {
  const AllOutcomes& tested;
  const AllOutcomes& truth;
  const Rounded& rounded;
};

Verdict judge(const Case& one, const CaseInputs& inputs, const Compared& compared);

}  // namespace judge
