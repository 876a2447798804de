#include "oracles/model/linear_rows.h"

#include <algorithm>
#include <cmath>

#include "oracles/lanes.h"
#include "oracles/parallel.h"

namespace oracles {
namespace {

constexpr std::int64_t kOutputs = 256;  // that a thread takes at a time
// Three sums over the terms of a product: x w, |x w|, and (b w)^2 for a bound b of x.
struct Sums {
  double value;
  double size;
  double spread;
};

NSA_WIDEST_VECTORS void dot(
    const double* x, const double* squared_bound, const double* w, std::int64_t count, Sums& sums) {
  Lanes value = {};
  Lanes size = {};
  Lanes spread = {};
  const std::int64_t whole = count - count % kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    Lanes a;
    Lanes b;
    Lanes c;
    load(x + i, a);
    load(w + i, b);
    load(squared_bound + i, c);
    const Lanes product = a * b;
    value += product;
    size += product < 0 ? -product : product;
    spread += b * b * c;
  }
  sums = {sum_of(value), sum_of(size), sum_of(spread)};
  for (std::int64_t i = whole; i < count; ++i) {
    sums.value += x[i] * w[i];
    sums.size += std::abs(x[i] * w[i]);
    sums.spread += w[i] * w[i] * squared_bound[i];
  }
}

// What one term adds to `count` results. REQUIRES: count is a multiple of kLanes.
NSA_WIDEST_VECTORS void add_term(double x,
                                 double squared_bound,
                                 const double* w,
                                 std::int64_t count,
                                 double* value,
                                 double* size,
                                 double* spread) {
  const double magnitude = std::abs(x);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    Lanes b;
    Lanes sum;
    load(w + i, b);
    load(value + i, sum);
    sum += x * b;
    store(sum, value + i);
    load(size + i, sum);
    sum += magnitude * (b < 0 ? -b : b);
    store(sum, size + i);
    load(spread + i, sum);
    sum += squared_bound * b * b;
    store(sum, spread + i);
  }
}

class LinearRows {
 public:
  LinearRows(const Expected& x, const Matrix& weight, bool transposed, const Rounding& rounding)
      : x_(x),
        weight_(weight),
        rounding_(rounding),
        rows_(x.value.shape[0]),
        terms_(x.value.shape[1]),
        outputs_(transposed ? weight.columns : weight.rows),
        squares_(x.value.data.size(), 0.0),
        y_{zeros({rows_, outputs_}), zeros({rows_, outputs_})} {
    for (std::size_t i = 0; i < x.bound.data.size(); ++i) {
      squares_[i] = x.bound.data[i] * x.bound.data[i];
    }
  }

  // Results [begin, end) of every row: each is a row of the weight.
  void by_rows(std::int64_t begin, std::int64_t end) {
    std::vector<double> w(static_cast<std::size_t>(terms_));
    for (std::int64_t out = begin; out < end; ++out) {
      weight_.row(out).copy_to(w.data());
      for (std::int64_t r = 0; r < rows_; ++r) {
        Sums sums{};
        dot(x_.value.data.data() + r * terms_,
            squares_.data() + r * terms_,
            w.data(),
            terms_,
            sums);
        write(r * outputs_ + out, sums);
      }
    }
  }

  // The same where each is a column of the weight.
  void by_columns(std::int64_t begin, std::int64_t end) {
    const std::int64_t count = end - begin;
    const std::int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
    const auto size = static_cast<std::size_t>(rows_ * padded);
    std::vector<double> w(static_cast<std::size_t>(padded), 0.0);
    std::vector<double> value(size, 0.0);
    std::vector<double> magnitude(size, 0.0);
    std::vector<double> spread(size, 0.0);
    for (std::int64_t k = 0; k < terms_; ++k) {
      weight_.row(k).part(begin, count).copy_to(w.data());
      for (std::int64_t r = 0; r < rows_; ++r) {
        const std::int64_t at = r * padded;
        add_term(x_.value.data[r * terms_ + k],
                 squares_[r * terms_ + k],
                 w.data(),
                 padded,
                 value.data() + at,
                 magnitude.data() + at,
                 spread.data() + at);
      }
    }
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at = r * padded + i;
        write(r * outputs_ + begin + i, {value[at], magnitude[at], spread[at]});
      }
    }
  }

  [[nodiscard]] std::int64_t outputs() const { return outputs_; }
  Expected take() { return std::move(y_); }

 private:
  void write(std::int64_t at, const Sums& sums) {
    y_.value.data[at] = sums.value;
    y_.bound.data[at] = rounding_.summed * sum_roundoff(terms_) * sums.size +
                        rounding_.stored * std::abs(sums.value) + rounding_.flushed +
                        8 / std::sqrt(3.0) * std::sqrt(sums.spread);
  }

  const Expected& x_;
  const Matrix& weight_;
  const Rounding& rounding_;
  std::int64_t rows_;
  std::int64_t terms_;
  std::int64_t outputs_;
  std::vector<double> squares_;  // of the bounds of x
  Expected y_;
};

}  // namespace

Expected expected_linear(const Expected& x_RK,
                         const Matrix& weight,
                         bool transposed,
                         const Rounding& rounding,
                         int threads) {
  require_shape(x_RK.value, {x_RK.value.shape.at(0), x_RK.value.shape.at(1)}, "rows");
  const std::int64_t terms = x_RK.value.shape[1];
  require_matrix(weight,
                 transposed ? terms : weight.rows,
                 transposed ? weight.columns : terms,
                 "a linear weight");
  LinearRows linear(x_RK, weight, transposed, rounding);
  parallel_for(linear.outputs(), kOutputs, threads, [&](std::int64_t begin, std::int64_t end) {
    transposed ? linear.by_columns(begin, end) : linear.by_rows(begin, end);
  });
  return linear.take();
}

}  // namespace oracles
