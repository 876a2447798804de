// Which heads wrong gradients come from.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "oracles/laws/backward_laws.h"

namespace oracles {
namespace {

using Vector = std::vector<double>;

double largest(const Vector& values) {
  double most = 0;
  for (const double value : values) {
    most = std::abs(value) <= most || std::isnan(most) ? most : std::abs(value);
  }
  return most;
}

// Rows [lane * count, (lane + 1) * count) of a matrix whose rows belong to lanes in order.
Vector lane_of(const Vector& data, std::int64_t lanes, std::int64_t lane) {
  const auto length = static_cast<std::ptrdiff_t>(data.size()) / static_cast<std::ptrdiff_t>(lanes);
  const auto begin = data.begin() + static_cast<std::ptrdiff_t>(lane) * length;
  return {begin, begin + length};
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

// a x = b by elimination with pivots; nothing where the rows are not independent.
std::optional<Vector> solve(std::vector<Vector> a, Vector b) {
  constexpr double kIndependent = 1e-12;  // of doubles
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t row = i + 1; row < n; ++row) {
      pivot = std::abs(a[row][i]) > std::abs(a[pivot][i]) ? row : pivot;
    }
    if (!(std::abs(a[pivot][i]) > kIndependent * largest(a[pivot]))) {
      return std::nullopt;
    }
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (std::size_t row = i + 1; row < n; ++row) {
      const double factor = a[row][i] / a[i][i];
      for (std::size_t column = i; column < n; ++column) {
        a[row][column] -= factor * a[i][column];
      }
      b[row] -= factor * b[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t column = i + 1; column < n; ++column) {
      b[i] -= a[i][column] * b[column];
    }
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
    for (std::size_t j = 0; j < shares.size(); ++j) {
      products[i][j] = dot(shares[i], shares[j]);
    }
    right[i] = dot(shares[i], difference);
  }
  auto coefficients = solve(products, right);
  if (!coefficients) {
    return std::nullopt;
  }
  Vector left = difference;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    for (std::size_t at = 0; at < left.size(); ++at) {
      left[at] -= (*coefficients)[i] * shares[i][at];
    }
  }
  return largest(left) <= bound ? coefficients : std::nullopt;
}

// That of the branch's output in head i of every group, zero elsewhere.
Tensor gradient_of_head(const Backward& backward, Branch branch, std::int64_t i) {
  const Sizes& n = backward.forward().sizes();
  Tensor d_o = backward.of_output(branch);
  const std::int64_t size = n.rows * backward.forward().config().d_v;
  for (std::int64_t head = 0; head < n.batch_groups() * n.heads; ++head) {
    if (head % n.heads != i) {
      std::fill_n(d_o.data.begin() + head * size, size, 0.0);
    }
  }
  return d_o;
}

// The gradient that head i of every group gives to a weight of keys or values.
Tensor share_of_head(const Backward& backward,
                     Branch branch,
                     const std::string& of,
                     std::int64_t i) {
  const Tensor d_o = gradient_of_head(backward, branch, i);
  Weights weights;
  Tensor dx = zeros(backward.forward().x().shape);
  backward.add_key_gradients(
      branch, backward.through(branch, d_o, backward.right_rule(branch)), dx, weights);
  return weights.at(of);
}

std::set<int> wrong_lanes(const Vector& difference, std::int64_t lanes, double bound) {
  std::set<int> wrong;
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    if (!(largest(lane_of(difference, lanes, lane)) <= bound)) {
      wrong.insert(static_cast<int>(lane));
    }
  }
  return wrong;
}

std::vector<int> ascending(const std::set<int>& values) {
  return {values.begin(), values.end()};
}

// Every head has rows of its own in the weight of the queries.
WrongHeads heads_of_rows(const AttentionConfig& config, const Vector& difference, double bound) {
  const std::set<int> heads = wrong_lanes(difference, config.n_heads, bound);
  std::set<int> groups;
  for (const int head : heads) {
    groups.insert(head / static_cast<int>(config.heads_per_group()));
  }
  return {ascending(heads), ascending(groups), {}};
}

// Lanes are the groups of one sequence after the other. `shares` are what each head of a group gives to the sum.
WrongHeads heads_of_shares(const AttentionConfig& config,
                           const std::vector<Vector>& shares,
                           const Vector& difference,
                           std::int64_t lanes,
                           double bound) {
  const auto per_group = static_cast<int>(config.heads_per_group());
  std::set<int> groups;
  std::set<int> heads;
  WrongHeads found;
  bool explained = true;
  for (const int lane : wrong_lanes(difference, lanes, bound)) {
    const int group = lane % static_cast<int>(config.n_kv_groups);
    groups.insert(group);
    std::vector<Vector> of_group;
    for (const Vector& share : shares) {
      of_group.push_back(lane_of(share, lanes, lane));
    }
    const Vector own = lane_of(difference, lanes, lane);
    const auto more = std::isfinite(largest(own)) ? fit(of_group, own, bound) : std::nullopt;
    explained = explained && more.has_value();
    for (int i = 0; i < per_group; ++i) {
      const auto at = static_cast<std::size_t>(i);
      // A head whose own part of the difference is within the bound has none.
      if (more && std::abs((*more)[at]) * largest(of_group[at]) <= bound) {
        continue;
      }
      heads.insert(group * per_group + i);
      if (more) {
        found.counts[group * per_group + i] = 1 + (*more)[at];
      }
    }
  }
  found.groups = ascending(groups);
  found.heads = ascending(heads);
  if (!explained) {
    found.counts.clear();
  }
  return found;
}

std::optional<Branch> branch_of_weight(const std::string& of) {
  for (const Branch branch : kBranches) {
    const std::string name = std::string(branch_name(branch)) + ".weight";
    if (of == "W_K_" + name || of == "W_V_" + name) {
      return branch;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<WrongHeads> wrong_heads(const Backward& backward, const RecordedGradient& recorded) {
  const AttentionConfig& config = backward.forward().config();
  const double bound = recorded.allowed.of(recorded.wanted);
  Vector difference = recorded.found.data;
  for (std::size_t i = 0; i < difference.size(); ++i) {
    difference[i] -= recorded.wanted.data[i];
  }
  if (recorded.of == "W_Q.weight") {
    return heads_of_rows(config, difference, bound);
  }
  const auto branch = branch_of_weight(recorded.of);
  if (!branch) {
    return std::nullopt;
  }
  std::vector<Vector> shares;
  for (int i = 0; i < static_cast<int>(config.heads_per_group()); ++i) {
    shares.push_back(share_of_head(backward, *branch, recorded.of, i).data);
  }
  return heads_of_shares(config, shares, difference, config.n_kv_groups, bound);
}

WrongHeads wrong_heads(const Backward& backward, Branch branch, const RecordedGradient& recorded) {
  const AttentionConfig& config = backward.forward().config();
  const Sizes& n = backward.forward().sizes();
  const double bound = recorded.allowed.of(recorded.wanted);
  Vector difference = recorded.found.data;
  for (std::size_t i = 0; i < difference.size(); ++i) {
    difference[i] -= recorded.wanted.data[i];
  }
  if (recorded.of == "q") {
    std::set<int> heads;
    std::set<int> groups;
    for (const int lane : wrong_lanes(difference, n.batch_groups() * n.heads, bound)) {
      heads.insert(lane % static_cast<int>(config.n_heads));
      groups.insert(lane % static_cast<int>(config.n_heads) / static_cast<int>(n.heads));
    }
    return {ascending(heads), ascending(groups), {}};
  }
  std::vector<Vector> shares;
  for (std::int64_t i = 0; i < n.heads; ++i) {
    const Tensor d_o = gradient_of_head(backward, branch, i);
    const BranchGradients share = backward.through(branch, d_o, backward.right_rule(branch));
    shares.push_back(recorded.of == "k" ? share.k.data : share.v.data);
  }
  return heads_of_shares(config, shares, difference, n.batch_groups(), bound);
}

}  // namespace oracles
