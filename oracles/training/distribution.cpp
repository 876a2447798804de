#include "oracles/training/distribution.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "oracles/parallel.h"

namespace oracles {
namespace {

constexpr std::int64_t kGrain = 65536;
// Random numbers are made of 24 binary digits: the steps of their distribution are this high, and
// rounding the ends of the range moves as much again.
constexpr double kSteps = 0x1p-22;

bool is_normal(const Distribution& d) {
  return d.law.kind == InitialLaw::Kind::normal;
}

// The type's next number. Above minus a power of two numbers lie half as far apart as below it.
double number_above(double x, Number number) {
  const double half = spacing(x, number) / 2;
  const double nearest = rounded(x + half, number);
  return nearest > x ? nearest : x + 2 * half;
}

}  // namespace

double Distribution::share_below(double x) const {
  if (is_normal(*this)) {
    return 0.5 * std::erfc(-x / (law.size * std::numbers::sqrt2));
  }
  const double share = positive ? x / law.size : (x / law.size + 1) / 2;
  return std::clamp(share, 0.0, 1.0);
}

// By halving the range: asked 255 times a tensor.
double Distribution::quantile(double share) const {
  double low = -10 * law.size;
  double high = 10 * law.size;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (share_below(middle) < share ? low : high) = middle;
  }
  return high;
}

double Distribution::mean_square() const {
  return is_normal(*this) ? law.size * law.size : law.size * law.size / 3;
}

Places::Places(const Distribution& distribution, Number number) {
  for (int i = 1; i < kCells; ++i) {
    const double wanted = distribution.quantile(static_cast<double>(i) / kCells);
    const double below = rounded(wanted, number);
    const double end = (below + number_above(below, number)) / 2;
    ends_.push_back(end);
    shares_.push_back(distribution.share_below(end));
  }
  shares_.push_back(1);
  low_ = ends_.front();
  const double range = ends_.back() - low_;
  scale_ = range > 0 ? kGuesses / range : 0;
  for (int guess = 0; guess < kGuesses; ++guess) {
    const double x = low_ + guess / std::max(scale_, 1e-300);
    const auto end = std::lower_bound(ends_.begin(), ends_.end(), x);
    guesses_.push_back(static_cast<int>(end - ends_.begin()));
  }
}

int Places::cell(double x) const {
  const double at = (x - low_) * scale_;
  int cell = guesses_[static_cast<std::size_t>(std::clamp(at, 0.0, kGuesses - 1.0))];
  while (cell > 0 && x < ends_[static_cast<std::size_t>(cell - 1)]) {
    --cell;
  }
  while (cell < kCells - 1 && x >= ends_[static_cast<std::size_t>(cell)]) {
    ++cell;
  }
  return cell;
}

void Moments::add(double x, const Places& places) {
  ++count;
  if (!std::isfinite(x)) {
    ++not_finite;
    return;
  }
  zeros += x == 0 ? 1 : 0;
  sum += x;
  squares += x * x;
  largest = count == 1 ? x : std::max(largest, x);
  lowest = count == 1 ? x : std::min(lowest, x);
  narrow = narrow && x == rounded(x, Number::bf16);
  ++cells[static_cast<std::size_t>(places.cell(x))];
}

void Moments::add(const Moments& other) {
  if (other.count == 0) {
    return;
  }
  largest = count == 0 ? other.largest : std::max(largest, other.largest);
  lowest = count == 0 ? other.lowest : std::min(lowest, other.lowest);
  count += other.count;
  not_finite += other.not_finite;
  zeros += other.zeros;
  sum += other.sum;
  squares += other.squares;
  narrow = narrow && other.narrow;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cells[i] += other.cells[i];
  }
}

Moments moments_of(const Numbers& values, const Places& places, int threads) {
  const std::int64_t count = values.size();
  std::vector<Moments> pieces(static_cast<std::size_t>((count + kGrain - 1) / kGrain));
  parallel_for(count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
    Moments piece;
    for (const double x : values.part(begin, end - begin).values()) {
      piece.add(x, places);
    }
    pieces[static_cast<std::size_t>(begin / kGrain)] = std::move(piece);
  });
  Moments all;
  for (const Moments& piece : pieces) {
    all.add(piece);
  }
  return all;
}

namespace {

// Largest magnitude: uniform numbers have an end, and n normal ones are all below
// sqrt(2 ln(2 n / alarm)) standard deviations.
bool is_within(const Moments& m, const Distribution& d, double u, double alarm) {
  const auto n = static_cast<double>(m.count);
  const double most =
      is_normal(d) ? d.law.size * std::sqrt(2 * std::log(2 * n / alarm)) : d.law.size;
  const double least = d.positive ? 0 : -most * (1 + 2 * u);
  return m.largest <= most * (1 + 2 * u) && m.lowest >= least;
}

bool has_mean(const Moments& m, const Distribution& d, double u, double alarm) {
  const auto n = static_cast<double>(m.count);
  const double wanted = d.positive ? d.law.size / 2 : 0;
  // Hoeffding for a range of 2 sizes; the same number bounds a normal mean. One sign: half the range.
  const double bound = d.law.size * (d.positive ? 0.5 : 1) * std::sqrt(2 * std::log(2 / alarm) / n);
  return std::abs(m.sum / n - wanted) <= bound + (2 * u + kSteps) * d.law.size;
}

bool has_mean_square(const Moments& m, const Distribution& d, double u, double alarm) {
  const auto n = static_cast<double>(m.count);
  const double l = std::log(2 / alarm);
  const double square = d.law.size * d.law.size;
  // Hoeffding for squares in 0 to size^2; Laurent and Massart for a sum of n squares of normals.
  const double bound =
      is_normal(d) ? square * (2 * std::sqrt(l / n) + 2 * l / n) : square * std::sqrt(l / (2 * n));
  return std::abs(m.squares / n - d.mean_square()) <= bound + (4 * u + 2 * kSteps) * square;
}

// Dvoretzky, Kiefer and Wolfowitz: sup |shares found - shares of the law| <= sqrt(ln(2 / alarm) / 2n).
bool has_shares(const Moments& m, const Places& places, double alarm) {
  const auto n = static_cast<double>(m.count);
  const double bound = std::sqrt(std::log(2 / alarm) / (2 * n)) + kSteps;
  double below = 0;
  for (int cell = 0; cell < Places::kCells; ++cell) {
    below += static_cast<double>(m.cells[static_cast<std::size_t>(cell)]);
    if (!(std::abs(below / n - places.share_below(cell)) <= bound)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_possible(
    const Moments& m, const Distribution& d, const Places& places, Number number, double alarm) {
  const double u = unit_roundoff(number);
  const double each = alarm / 4;
  return m.not_finite == 0 && is_within(m, d, u, each) && has_mean(m, d, u, each) &&
         has_mean_square(m, d, u, each) && has_shares(m, places, each);
}

}  // namespace oracles
