// Numbers as somebody has recorded them: in their own type, in somebody else's memory, which may be
// a mapped file and need not be aligned. A view; copying it copies no number.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "oracles/tensor.h"

namespace oracles {

enum class Number { f64, f32, bf16, f16 };

std::string_view number_name(Number number);  // "float64", ...
std::int64_t bytes_of(Number number);
// Largest relative error of rounding to nearest: 2^-53, 2^-24, 2^-8, 2^-11.
double unit_roundoff(Number number);
// Results below it lose digits, and some processors flush them to zero.
double smallest_normal(Number number);
// Nearest number of the type, the even one of two; infinity beyond the largest. Rounds once.
double rounded(double value, Number number);
// Distance between the type's numbers around a value: a power of two. REQUIRES: finite.
double spacing(double value, Number number);

class Numbers {
 public:
  Numbers() = default;
  // REQUIRES: `data` has `count` numbers and outlives the view.
  Numbers(const void* data, std::int64_t count, Number number)
      : data_(static_cast<const unsigned char*>(data)), count_(count), number_(number) {}
  static Numbers of(std::span<const double> values) {
    return {values.data(), static_cast<std::int64_t>(values.size()), Number::f64};
  }
  static Numbers of(std::span<const float> values) {
    return {values.data(), static_cast<std::int64_t>(values.size()), Number::f32};
  }

  [[nodiscard]] std::int64_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] Number number() const { return number_; }
  [[nodiscard]] double operator[](std::int64_t i) const;
  // REQUIRES: the part lies inside.
  [[nodiscard]] Numbers part(std::int64_t begin, std::int64_t count) const {
    return {data_ + begin * bytes_of(number_), count, number_};
  }
  [[nodiscard]] const unsigned char* bytes() const { return data_; }
  // All of them as float64, which every type fits into.
  void copy_to(double* to) const;
  [[nodiscard]] std::vector<double> values() const;

 private:
  const unsigned char* data_ = nullptr;
  std::int64_t count_ = 0;
  Number number_ = Number::f64;
};

// Row-major, without gaps.
struct Matrix {
  Numbers numbers;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  [[nodiscard]] Numbers row(std::int64_t r) const { return numbers.part(r * columns, columns); }
};
// All dimensions but the last are rows. Refers to `tensor`.
Matrix matrix_of(const Tensor& tensor);
// [1 or more, columns] as a tensor of its own.
Tensor tensor_of(const Matrix& matrix);
// Some rows of it: [R, columns]. REQUIRES: rows inside.
Tensor rows_of(const Matrix& matrix, std::span<const std::int64_t> rows);

// Throws std::invalid_argument that names the matrix, where numbers and shape disagree or the shape
// is not the one wanted.
void require_matrix(const Matrix& matrix,
                    std::int64_t rows,
                    std::int64_t columns,
                    std::string_view name);

}  // namespace oracles
