// Numbers for the calls of a foreign kernel: each a pure function of a key and its place, the same on every machine. What
// goes to a narrow type is drawn with eight significant digits, so that bfloat16 and float16 hold it exactly: inputs are
// never rounded on the way, and the oracle starts from the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nsa/base/config.h"
#include "nsa/base/safetensors.h"

namespace harness {

class Draws {
 public:
  explicit Draws(std::uint64_t key) : key_(key) {}
  [[nodiscard]] std::uint64_t bits(std::uint64_t at) const;
  [[nodiscard]] double uniform(std::uint64_t at) const;  // (0, 1)
  [[nodiscard]] double normal(std::uint64_t at) const;

 private:
  std::uint64_t key_;
};

// The type that the numbers of a precision are handed over in.
[[nodiscard]] nsa::DType dtype_of(nsa::Precision precision);

// From 1 to the next number that the type holds.
[[nodiscard]] double unit_above_one(nsa::DType dtype);

// A number that the type holds exactly, next to `value`; 0 where that is below what narrow types hold with all digits.
[[nodiscard]] double held_by(nsa::DType dtype, double value);

// REQUIRES: every value is held by the type.
[[nodiscard]] std::vector<std::byte> encoded(nsa::DType dtype, const std::vector<double>& values);

}  // namespace harness
