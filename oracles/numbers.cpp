#include "oracles/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace oracles {
namespace {

struct Format {
  std::string_view name;
  std::int64_t bytes;
  int digits;       // significant binary digits, the leading one included
  double unit;      // the distance of two numbers from 1 on: 2 to the power 1 - digits
  double smallest;  // normal number, a power of two
  double largest;
};

const Format& format(Number number) {
  static constexpr Format kFormats[] = {
      {"float64", 8, 53, 0x1p-52, 0x1p-1022, std::numeric_limits<double>::max()},
      {"float32", 4, 24, 0x1p-23, 0x1p-126, 0x1.fffffep127},
      {"bfloat16", 2, 8, 0x1p-7, 0x1p-126, 0x1.fep127},
      {"float16", 2, 11, 0x1p-10, 0x1p-14, 65504},
  };
  return kFormats[static_cast<std::size_t>(number)];
}

template <typename T>
T loaded(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

double from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// The exponent of float16 moved up by 112, as that of float32; subnormal numbers become normal by
// the product, infinities and NaN keep their payload.
double from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7FFFU) << 13;
  if ((bits & 0x7C00U) == 0x7C00U) {
    return std::bit_cast<float>(sign | 0x7F800000U | rest);
  }
  return std::bit_cast<float>(sign | rest) * 0x1p112F;
}

}  // namespace

std::string_view number_name(Number number) {
  return format(number).name;
}
std::int64_t bytes_of(Number number) {
  return format(number).bytes;
}
double unit_roundoff(Number number) {
  return 0.5 * format(number).unit;
}
double smallest_normal(Number number) {
  return format(number).smallest;
}

double rounded(double value, Number number) {
  const Format& f = format(number);
  if (number == Number::f64 || !std::isfinite(value) || value == 0) {
    return value;
  }
  double nearest = 0;
  if (std::abs(value) >= f.smallest) {
    // The last digits that stay, plus half of the last one, less a little where that one is even; a
    // carry into the exponent is right.
    const int dropped = 53 - f.digits;
    std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
    bits += (std::uint64_t{1} << (dropped - 1)) - 1 + ((bits >> dropped) & 1U);
    nearest = std::bit_cast<double>(bits >> dropped << dropped);
  } else {
    // Below the normal numbers all are equally far apart. Division by a power of two is exact.
    const double step = f.smallest * f.unit;
    nearest = std::nearbyint(value / step) * step;
  }
  if (std::abs(nearest) > f.largest) {
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  }
  return nearest;
}

double spacing(double value, Number number) {
  const Format& f = format(number);
  const double size = std::abs(value) >= f.smallest ? std::abs(value) : f.smallest;
  // Without its fraction a number is the power of two below it.
  constexpr std::uint64_t kExponent = 0x7FF0000000000000U;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(size) & kExponent) * f.unit;
}

double Numbers::operator[](std::int64_t i) const {
  const unsigned char* const at = data_ + i * bytes_of(number_);
  switch (number_) {
    case Number::f64: return loaded<double>(at);
    case Number::f32: return loaded<float>(at);
    case Number::bf16: return from_bf16(loaded<std::uint16_t>(at));
    case Number::f16: break;
  }
  return from_f16(loaded<std::uint16_t>(at));
}

void Numbers::copy_to(double* to) const {
  switch (number_) {
    case Number::f64:
      std::memcpy(to, data_, static_cast<std::size_t>(count_) * sizeof(double));
      return;
    case Number::f32:
      for (std::int64_t i = 0; i < count_; ++i) {
        to[i] = loaded<float>(data_ + 4 * i);
      }
      return;
    case Number::bf16:
      for (std::int64_t i = 0; i < count_; ++i) {
        to[i] = from_bf16(loaded<std::uint16_t>(data_ + 2 * i));
      }
      return;
    case Number::f16:
      for (std::int64_t i = 0; i < count_; ++i) {
        to[i] = from_f16(loaded<std::uint16_t>(data_ + 2 * i));
      }
  }
}

std::vector<double> Numbers::values() const {
  std::vector<double> all(static_cast<std::size_t>(count_));
  if (count_ > 0) {
    copy_to(all.data());
  }
  return all;
}

Matrix matrix_of(const Tensor& tensor) {
  const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  const auto count = static_cast<std::int64_t>(tensor.data.size());
  return {Numbers::of(std::span(tensor.data)), columns == 0 ? 0 : count / columns, columns};
}

Tensor tensor_of(const Matrix& matrix) {
  return {{matrix.rows, matrix.columns}, matrix.numbers.values()};
}

Tensor rows_of(const Matrix& matrix, std::span<const std::int64_t> rows) {
  Tensor result = zeros({static_cast<std::int64_t>(rows.size()), matrix.columns});
  double* to = result.data.data();
  for (const std::int64_t row : rows) {
    matrix.row(row).copy_to(to);
    to += matrix.columns;
  }
  return result;
}

void require_matrix(const Matrix& matrix,
                    std::int64_t rows,
                    std::int64_t columns,
                    std::string_view name) {
  if (matrix.rows != rows || matrix.columns != columns || matrix.numbers.size() != rows * columns) {
    throw std::invalid_argument(std::string(name) + ": found [" + std::to_string(matrix.rows) +
                                "," + std::to_string(matrix.columns) + "] with " +
                                std::to_string(matrix.numbers.size()) + " numbers, wanted [" +
                                std::to_string(rows) + "," + std::to_string(columns) + "]");
  }
}

}  // namespace oracles
