#include "harness/checks/error_budget.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "harness/checks/largest.h"

namespace harness::checks {
namespace {

// What these budgets still see was measured: docs/arithmetic.md.
// The float32 ceiling is of a largest error; roundings of independent signs are an eighth of it on average.
constexpr double kMeanShareOfCeiling = 1.0 / 8;
constexpr double kMeanBudget = 1.5;  // times the yardstick's root mean square
constexpr double kUlpsOfBudget = 4.0;
// Of a unit in the last place of the largest number, on average. Who keeps partial results in fixed steps of a row's largest number
// (nsa/kernels/common/part.h) is off by that where the yardstick is exact: a row with one key.
constexpr double kShareOfUlp = 1.0 / 32;
// Of the factor, in a tensor that is one row. The largest error of several draws is no luck of one, and it is asked once; of many
// rows the worst is asked.
constexpr double kShareOfDrawn = 2.0 / 3;
// So many times the limit of some draws: no further one makes up for that.
constexpr int kDrawsInAnyCase = 2;
constexpr double kFarOut = 10.0;

// A part of a tensor that is judged by itself.
struct Part {
  double most = 0.0;   // largest error of what was found
  double plain = 0.0;  // of the yardstick
  double drawn = 0.0;  // and of those with drawn roundings
  double size = 0.0;   // largest number
  double squares = 0.0;
  std::array<double, kDraws + 1> plain_squares{};  // of each yardstick
  double plain_fourths = 0.0;                      // fourth powers, of all yardsticks
  std::int64_t count = 0;

  void add(double error, const std::vector<double>& of_plain, double wanted) {
    raise_to(most, error);
    raise_to(size, std::abs(wanted));
    squares += error * error;
    for (std::size_t k = 0; k < of_plain.size(); ++k) {
      raise_to(k == 0 ? plain : drawn, of_plain[k]);
      const double square = of_plain[k] * of_plain[k];
      plain_squares[k] += square;
      plain_fourths += square * square;
    }
    ++count;
  }
  [[nodiscard]] double most_plain_squares() const {
    double most_of_all = 0.0;
    for (const double of_one : plain_squares) raise_to(most_of_all, of_one);
    return most_of_all;
  }
  // How many numbers of like size make as uneven a sum of squares as the yardsticks' errors do: all of them where they are
  // uniform, one where one number has nearly all of it.
  [[nodiscard]] double carried_by(std::size_t yardsticks) const {
    constexpr double kFourthOfUniform =
        1.8;  // mean fourth power of uniform numbers, in squares of their mean square
    double all = 0.0;
    for (const double of_one : plain_squares) all += of_one;
    const double uneven = plain_fourths > 0.0 ? kFourthOfUniform * all * all / plain_fourths : 1.0;
    return std::clamp(uneven / static_cast<double>(yardsticks),
                      1.0,
                      static_cast<double>(std::max<std::int64_t>(1, count)));
  }
  [[nodiscard]] double mean(double sum_of_squares) const {
    return std::sqrt(sum_of_squares / static_cast<double>(std::max<std::int64_t>(1, count)));
  }
};

enum class Kind { whole, head, row };

constexpr std::int64_t kEnoughForAMean = 8;

class Account {
 public:
  explicit Account(const Measured& tensor)
      : t_(tensor),
        width_(tensor.wanted.shape.empty() ? 1
                                           : static_cast<std::size_t>(std::max<std::int64_t>(
                                                 1, tensor.wanted.shape.back()))) {}

  Spent spent() {
    if (t_.wanted.data.empty()) return {};
    std::vector<Part> rows(t_.wanted.data.size() / width_);
    std::vector<Part> heads(static_cast<std::size_t>(t_.heads));
    Part whole;
    std::vector<double> plain(1 + t_.drawn.size());
    for (std::size_t i = 0; i < t_.wanted.data.size(); ++i) {
      if (!std::isfinite(t_.wanted.data[i]))
        continue;  // made of an input that is not: says nothing
      const double error = std::abs(t_.found.data[i] - t_.wanted.data[i]);
      plain[0] = std::abs(t_.plain.data[i] - t_.wanted.data[i]);
      for (std::size_t k = 0; k < t_.drawn.size(); ++k) {
        plain[k + 1] = std::abs(t_.drawn[k]->data[i] - t_.wanted.data[i]);
      }
      whole.add(error, plain, t_.wanted.data[i]);
      rows[i / width_].add(error, plain, t_.wanted.data[i]);
      if (t_.heads > 0) {
        heads[static_cast<std::size_t>(t_.head_of(i))].add(error, plain, t_.wanted.data[i]);
      }
    }
    spent_.whole = most_allowed(whole);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (take(rows[row], Kind::row)) wrong_.insert(row);
    }
    std::set<std::int64_t> wrong_heads;
    for (std::size_t head = 0; head < heads.size(); ++head) {
      if (take(heads[head], Kind::head)) wrong_heads.insert(static_cast<std::int64_t>(head));
    }
    const bool all = take(whole, Kind::whole) && wrong_heads.empty() && wrong_.empty();
    for (const std::size_t row : wrong_) {  // a head that holds a wrong row is told by it
      for (std::size_t i = row * width_; i < (row + 1) * width_ && !wrong_heads.empty(); ++i) {
        wrong_heads.erase(t_.head_of(i));
      }
    }
    add_rows_of(wrong_heads, all, rows);
    spent_.wrong.assign(wrong_.begin(), wrong_.end());
    return std::move(spent_);
  }

 private:
  [[nodiscard]] double most_allowed(const Part& part) const {
    const double share = t_.wanted.data.size() == width_ ? kShareOfDrawn : 1.0;
    return t_.factor * std::max(part.plain, share * part.drawn) +
           kUlpsOfBudget * oracles::spacing(part.size, t_.number) + t_.summed;
  }
  // A mean square of n errors is itself known to 1/sqrt(2n) of it, and two are compared: three deviations of their ratio are
  // 3/sqrt(n). A row has few numbers, which one rounding the other way moves by a unit in the last place. The mean of a handful
  // (the three biases of a gate) can be far smaller by luck on one side: there it says no more than the largest error does. Draws
  // show how many numbers carry the mean.
  [[nodiscard]] double mean_allowed(const Part& part, Kind kind) const {
    if (part.count < kEnoughForAMean) return most_allowed(part);
    const double numbers =
        t_.drawn.empty() ? static_cast<double>(part.count) : part.carried_by(1 + t_.drawn.size());
    const double spread = 1.0 + 3.0 / std::sqrt(numbers);
    return kMeanBudget * spread * part.mean(part.most_plain_squares()) +
           kMeanShareOfCeiling * t_.summed +
           (kind == Kind::row ? 1.0 : kShareOfUlp) * oracles::spacing(part.size, t_.number);
  }

  // True when the part is out of its budget.
  bool take(const Part& part, Kind kind) {
    if (part.count == 0) return false;
    const bool most = take(part.most, most_allowed(part), part.size, "", kind);
    const bool mean =
        take(part.mean(part.squares), mean_allowed(part, kind), part.size, "on average ", kind);
    return most || mean;
  }
  bool take(double error, double limit, double size, const char* how, Kind kind) {
    const bool out = !(error <= limit);
    // A part without any number but zero has no scale: its limit is one.
    const double scale = size > 0.0 ? size : limit > 0.0 ? limit : 1.0;
    const double share = limit > 0.0 ? error / limit : out ? std::nan("") : 0.0;
    if (!(share <= share_) && !std::isnan(share_)) {
      share_ = share;
      spent_.error = error / scale;
      spent_.limit = limit / scale;
      constexpr const char* kPlaces[] = {"of the whole tensor", "of one head", "of one row"};
      spent_.where = std::string(how) + kPlaces[static_cast<int>(kind)];
    }
    return out;
  }

  // A head or a tensor that is out of its budget on average alone has no row that is: those that are further off than the
  // yardstick are its place.
  void add_rows_of(const std::set<std::int64_t>& heads, bool all, const std::vector<Part>& rows) {
    const auto is_named = [&](std::size_t row) {
      for (std::size_t i = row * width_; i < (row + 1) * width_ && !all; ++i) {
        if (heads.count(t_.head_of(i)) > 0) return true;
      }
      return all;
    };
    for (std::size_t row = 0; row < rows.size() && (all || !heads.empty()); ++row) {
      const bool further = !(rows[row].squares <= rows[row].most_plain_squares());
      if (further && is_named(row)) wrong_.insert(row);
    }
  }

  const Measured& t_;
  std::size_t width_;
  double share_ = -1.0;
  Spent spent_;
  std::set<std::size_t> wrong_;
};

}  // namespace

void tell_heads_apart(Measured& tensor) {
  const std::vector<std::int64_t>& shape = tensor.wanted.shape;
  if (shape.size() < 4) return;
  const std::size_t rows = shape.size() - 2;
  const std::int64_t size = shape[rows] * shape.back();
  tensor.heads = shape[1] * (rows == 3 ? shape[2] : 1);
  tensor.head_of = [size, heads = tensor.heads](std::size_t i) {
    return static_cast<std::int64_t>(i) / size % heads;
  };
}

Spent spent(const Measured& tensor) {
  return Account(tensor).spent();
}

Spent spent(Measured tensor, const Drawn& drawn) {
  Spent seen = spent(tensor);
  for (int draw = 1; draw <= kDraws && !seen.within(); ++draw) {
    if (draw > kDrawsInAnyCase && !(seen.error <= kFarOut * seen.limit)) break;
    tensor.drawn.push_back(&drawn(draw));
    seen = spent(tensor);
  }
  return seen;
}

}  // namespace harness::checks
