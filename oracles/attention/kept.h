// What a computation rounds the tensors to that it keeps. The oracle itself rounds nothing; told to keep
// narrow tensors, it is a second, independent computation in that type: every tensor that is stored is
// rounded to it once, everything between (sums, softmax, rotation) is exact. Its distance from the
// oracle is what the type alone does to the numbers. Written from docs/arithmetic.md, never from an
// implementation.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "oracles/attention/keys.h"
#include "oracles/counter_random.h"
#include "oracles/numbers.h"
#include "oracles/parallel.h"
#include "oracles/tensor.h"

namespace oracles {

struct Kept {
  Number results = Number::f64;  // stages, and the gradients that the backward hands on
  Number input = Number::f64;    // the gradient of x
  // By branch: a back end that multiplies narrow numbers rounds the probabilities and their gradients
  // before their products, takes the mean of the softmax's backward from the stored output, and
  // hands on the gradients of keys and values head by head.
  std::array<bool, 3> narrow_products{};
  // The gradients of a tensor's consumers are added in the type of the results, one after the other.
  bool narrow_sums = false;
  // 0: to the nearest number. Else the error of every rounding is drawn, uniform between half a unit
  // in the last place down and up, as those of numbers with unrelated digits are; equal numbers get
  // equal errors, and what needs no rounding none. Draws show how much the distance from the oracle
  // owes to luck: another order of exact operations rounds other numbers.
  std::uint64_t draw = 0;

  [[nodiscard]] bool rounds() const { return results != Number::f64; }
  [[nodiscard]] bool narrow(Branch branch) const {
    return narrow_products[static_cast<std::size_t>(branch)];
  }
  void round(std::vector<double>& values) const { round(values, results); }
  void round(std::vector<double>& values, Number number) const {
    if (number == Number::f64) return;
    constexpr std::int64_t kGrain = 1 << 15;
    parallel_for(static_cast<std::int64_t>(values.size()),
                 kGrain,
                 /*threads=*/0,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     double& value = values[static_cast<std::size_t>(i)];
                     value = of(value, number);
                   }
                 });
  }
  [[nodiscard]] double of(double value, Number number) const {
    const double nearest = rounded(value, number);
    if (draw == 0 || !std::isfinite(nearest)) return nearest;
    constexpr double kNoRounding =
        1e-6;  // of a unit in the last place: what float64 itself is off by
    const double unit_in_last_place = spacing(value, number);
    if (std::abs(value - nearest) < kNoRounding * unit_in_last_place) return nearest;
    const double error = unit(oracles::draw(draw, std::bit_cast<std::uint64_t>(value))) - 0.5;
    return value + error * unit_in_last_place;
  }
  [[nodiscard]] Tensor of(Tensor tensor) const {
    round(tensor.data);
    return tensor;
  }
};

}  // namespace oracles
