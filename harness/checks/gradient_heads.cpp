#include "harness/checks/gradient_heads.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/checks/largest.h"
#include "harness/checks/result.h"

namespace harness::checks {
namespace {

using oracles::Tensor;
using Vector = std::vector<double>;

constexpr std::size_t kPrefix = 4;  // "g.w."

// Rows [lane * count, (lane + 1) * count) of a matrix whose rows belong to lanes in order.
Vector lane_of(const Vector& data, std::int64_t lanes, std::int64_t lane) {
  const auto length = static_cast<std::ptrdiff_t>(data.size()) / static_cast<std::ptrdiff_t>(lanes);
  const auto begin = data.begin() + static_cast<std::ptrdiff_t>(lane) * length;
  return {begin, begin + length};
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// a x = b by elimination with pivots; nothing where the rows are not independent.
std::optional<Vector> solve(std::vector<Vector> a, Vector b) {
  constexpr double kIndependent = 1e-12;  // of doubles
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t row = i + 1; row < n; ++row) {
      if (std::abs(a[row][i]) > std::abs(a[pivot][i])) pivot = row;
    }
    if (!(std::abs(a[pivot][i]) > kIndependent * largest(a[pivot]))) return std::nullopt;
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (std::size_t row = i + 1; row < n; ++row) {
      const double factor = a[row][i] / a[i][i];
      for (std::size_t column = i; column < n; ++column) a[row][column] -= factor * a[i][column];
      b[row] -= factor * b[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t column = i + 1; column < n; ++column) b[i] -= a[i][column] * b[column];
    b[i] /= a[i][i];
  }
  return b;
}

// The coefficients of `shares` that give `difference` within `bound` everywhere, by least squares.
std::optional<Vector> fit(const std::vector<Vector>& shares,
                          const Vector& difference,
                          double bound) {
  std::vector<Vector> products(shares.size(), Vector(shares.size()));
  Vector right(shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i) {
    for (std::size_t j = 0; j < shares.size(); ++j) products[i][j] = dot(shares[i], shares[j]);
    right[i] = dot(shares[i], difference);
  }
  auto coefficients = solve(products, right);
  if (!coefficients) return std::nullopt;
  Vector left = difference;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    for (std::size_t at = 0; at < left.size(); ++at) left[at] -= (*coefficients)[i] * shares[i][at];
  }
  if (!(largest(left) <= bound)) return std::nullopt;
  return coefficients;
}

class HeadShares {
 public:
  HeadShares(const LayerRecord& record,
             const oracles::AttentionOptions& options,
             const std::string& name)
      : record_(record), heads_(record.config.heads_per_group()) {
    for (std::int64_t i = 0; i < heads_; ++i) {
      const oracles::AttentionPass pass =
          oracles::attention_with_gradients(record.config, only(i), record.x, *record.dy, options);
      gradients_.push_back(pass.gradients.weights.at(name.substr(kPrefix)).data);
    }
  }

  // Of every head of `group`.
  [[nodiscard]] std::vector<Vector> of_group(std::int64_t group) const {
    std::vector<Vector> shares;
    for (const Vector& gradient : gradients_) {
      shares.push_back(lane_of(gradient, record_.config.n_kv_groups, group));
    }
    return shares;
  }

 private:
  // What all but head `i` of every group put out counts nothing: its columns of the output's weight [E, H*V] are zero.
  [[nodiscard]] oracles::Weights only(std::int64_t i) const {
    oracles::Weights weights = record_.weights;
    Vector& out = weights.at("out.weight").data;
    const std::int64_t width = record_.config.d_v;
    const auto columns = static_cast<std::size_t>(record_.config.n_heads * width);
    for (std::size_t at = 0; at < out.size(); ++at) {
      const auto head = static_cast<std::int64_t>(at % columns) / width;
      if (head % heads_ != i) out[at] = 0.0;
    }
    return weights;
  }

  const LayerRecord& record_;
  std::int64_t heads_;
  std::vector<Vector> gradients_;
};

std::set<int> wrong_lanes(const Vector& difference, std::int64_t lanes, double bound) {
  std::set<int> wrong;
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    if (!(largest(lane_of(difference, lanes, lane)) <= bound)) {
      wrong.insert(static_cast<int>(lane));
    }
  }
  return wrong;
}

}  // namespace

std::optional<WrongHeads> heads_of_gradient(const LayerRecord& record,
                                            const oracles::AttentionOptions& options,
                                            const std::string& name,
                                            const Tensor& wanted,
                                            double bound) {
  const bool of_queries = name == "g.w.W_Q.weight";
  const bool of_groups = name.starts_with("g.w.W_K_") || name.starts_with("g.w.W_V_");
  if (!record.has(name) || !(of_queries || of_groups)) return std::nullopt;
  Vector difference = record.at(name).data;
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= wanted.data[i];
  const auto per_group = static_cast<int>(record.config.heads_per_group());
  WrongHeads found;
  if (of_queries) {
    const std::set<int> heads = wrong_lanes(difference, record.config.n_heads, bound);
    std::set<int> groups;
    for (const int head : heads) groups.insert(head / per_group);
    found.heads = to_ints(heads);
    found.groups = to_ints(groups);
    return found;
  }
  const std::int64_t groups = record.config.n_kv_groups;
  const std::set<int> wrong = wrong_lanes(difference, groups, bound);
  found.groups = to_ints(wrong);
  const bool has_numbers = std::isfinite(largest(difference));
  const HeadShares shares(record, options, name);
  std::set<int> heads;
  for (const int group : wrong) {
    const std::vector<Vector> of_group = shares.of_group(group);
    const auto more =
        has_numbers ? fit(of_group, lane_of(difference, groups, group), bound) : std::nullopt;
    for (int i = 0; i < per_group; ++i) {
      const int head = group * per_group + i;
      const auto at = static_cast<std::size_t>(i);
      // A head whose own part of the difference is within the bound has none.
      if (more && std::abs((*more)[at]) * largest(of_group[at]) <= bound) continue;
      heads.insert(head);
      if (more) found.counts[head] = 1.0 + (*more)[at];
    }
  }
  found.heads = to_ints(heads);
  if (found.counts.size() != found.heads.size()) found.counts.clear();
  return found;
}

}  // namespace harness::checks
