#include "harness/foreign/draw.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

namespace harness {
namespace {

constexpr double kSmallestHalf = 0x1p-14;  // below it float16 has fewer digits
constexpr double kSmallestNarrow = 0x1p-126;

// The finaliser of SplitMix64: every bit of the input moves half of the output's.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

bool is_narrow(nsa::DType dtype) {
  return dtype == nsa::DType::bf16 || dtype == nsa::DType::f16;
}

std::uint16_t half_bits(double value) {
  if (value == 0.0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // [0.5, 1)
  const auto digits = static_cast<std::uint16_t>((2.0 * fraction - 1.0) * 1024.0);
  const auto biased = static_cast<std::uint16_t>(exponent - 1 + 15);
  return static_cast<std::uint16_t>((value < 0.0 ? 0x8000U : 0U) | (biased << 10U) | digits);
}

template <typename T>
void put(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(T));
}

void put_number(nsa::DType dtype, double value, std::byte* to) {
  const auto wide = static_cast<float>(value);
  switch (dtype) {
    case nsa::DType::f64: return put(value, to);
    case nsa::DType::bf16:
      return put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(wide) >> 16U), to);
    case nsa::DType::f16: return put(half_bits(value), to);
    default: return put(wide, to);
  }
}

}  // namespace

std::uint64_t Draws::bits(std::uint64_t at) const {
  return mixed(mixed(key_) ^ mixed(at + 1));
}

double Draws::uniform(std::uint64_t at) const {
  return (static_cast<double>(bits(at) >> 11U) + 0.5) * 0x1p-53;
}

double Draws::normal(std::uint64_t at) const {
  const double radius = std::sqrt(-2.0 * std::log(uniform(2 * at)));
  return radius * std::cos(2.0 * std::numbers::pi * uniform(2 * at + 1));
}

nsa::DType dtype_of(nsa::Precision precision) {
  switch (precision) {
    case nsa::Precision::fp64: return nsa::DType::f64;
    case nsa::Precision::bf16: return nsa::DType::bf16;
    case nsa::Precision::fp16: return nsa::DType::f16;
    default: return nsa::DType::f32;
  }
}

double unit_above_one(nsa::DType dtype) {
  switch (dtype) {
    case nsa::DType::f64: return 0x1p-52;
    case nsa::DType::bf16: return 0x1p-7;
    case nsa::DType::f16: return 0x1p-10;
    default: return 0x1p-23;
  }
}

double held_by(nsa::DType dtype, double value) {
  if (dtype == nsa::DType::f64) return value;
  if (!is_narrow(dtype)) return static_cast<double>(static_cast<float>(value));
  if (std::abs(value) < (dtype == nsa::DType::f16 ? kSmallestHalf : kSmallestNarrow)) return 0.0;
  constexpr int kDigits = 8;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1.0, exponent - kDigits);
  return std::nearbyint(value / unit) * unit;
}

std::vector<std::byte> encoded(nsa::DType dtype, const std::vector<double>& values) {
  const auto size = static_cast<std::size_t>(nsa::dtype_bytes(dtype));
  std::vector<std::byte> bytes(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    put_number(dtype, values[i], bytes.data() + i * size);
  }
  return bytes;
}

}  // namespace harness
