// Which laws give the gradients that were recorded, and which heads the wrong ones come from.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "oracles/laws/backward_laws.h"

namespace oracles {
namespace {

using Vector = std::vector<double>;
using Vectors = std::vector<std::size_t>;

Vectors wrong_in(const RecordedGradient& gradient) {
  return wrong_vectors(gradient.found, gradient.wanted, gradient.allowed.of(gradient.wanted));
}

const Tensor& of_name(const AttentionGradients& gradients, const std::string& name) {
  return name == "x" ? gradients.x : gradients.weights.at(name);
}
const Tensor& of_name(const BranchGradients& gradients, const std::string& name) {
  return name == "q" ? gradients.q : name == "k" ? gradients.k : gradients.v;
}

// The branches whose attention every wrong gradient goes through.
std::vector<Branch> branches_on_the_way(const Backward& backward,
                                        std::span<const RecordedGradient> recorded,
                                        const std::vector<Vectors>& wrong) {
  std::vector<Branch> branches;
  for (const Branch branch : kBranches) {
    bool all = true;
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      const std::vector<Stage> way = stages_on_the_way(recorded[i].of, backward.forward().config());
      const bool goes_through =
          std::find(way.begin(), way.end(), output_stage(branch)) != way.end();
      all = all && (wrong[i].empty() || goes_through);
    }
    if (all) {
      branches.push_back(branch);
    }
  }
  return branches;
}

// Rows of matrices: those that the law would change, and those of them that are what it gives.
struct Extent {
  bool explains = true;  // every wrong row
  std::size_t shows = 0;
  std::size_t holds = 0;

  [[nodiscard]] double share() const {
    return shows == 0 ? 1 : static_cast<double>(holds) / static_cast<double>(shows);
  }
};

void add(const RecordedGradient& gradient,
         const Vectors& wrong,
         const Tensor& output,
         Extent& extent) {
  const double limit = gradient.allowed.of(output);
  const Vectors not_given = wrong_vectors(gradient.found, output, limit);
  const Vectors shown = wrong_vectors(output, gradient.wanted, limit);
  Vectors both;
  std::set_intersection(
      shown.begin(), shown.end(), not_given.begin(), not_given.end(), std::back_inserter(both));
  extent.shows += shown.size();
  extent.holds += shown.size() - both.size();
  both.clear();
  std::set_intersection(
      wrong.begin(), wrong.end(), not_given.begin(), not_given.end(), std::back_inserter(both));
  extent.explains = extent.explains && both.empty();
}

bool is_of(const BackwardLaw& law, Branch branch, const Backward& backward) {
  const bool of_branch =
      std::find(law.branches.begin(), law.branches.end(), branch) != law.branches.end();
  return of_branch && (!law.of_all_rows || backward.forward().has_all_rows());
}

// Which vectors of each gradient are wrong; counts them.
std::vector<Vectors> wrong_in(std::span<const RecordedGradient> recorded, Misfit& right) {
  std::vector<Vectors> wrong;
  for (const RecordedGradient& gradient : recorded) {
    wrong.push_back(wrong_in(gradient));
    right.judged += static_cast<std::int64_t>(gradient.wanted.data.size()) /
                    std::max<std::int64_t>(1, gradient.wanted.shape.back());
    right.wrong += static_cast<std::int64_t>(wrong.back().size());
  }
  return wrong;
}

// How far the gradients that a law gives are what was recorded.
template <typename Gradients>
Extent extent_of(const Gradients& output,
                 std::span<const RecordedGradient> recorded,
                 const std::vector<Vectors>& wrong) {
  Extent extent;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    add(recorded[i], wrong[i], of_name(output, recorded[i].of), extent);
  }
  return extent;
}

// What every wrong gradient has in common: the same factor, the same rounding.
std::vector<LawFit> common_patterns(std::span<const RecordedGradient> recorded,
                                    const std::vector<Vectors>& wrong) {
  std::vector<LawFit> common;
  bool first = true;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    if (wrong[i].empty()) {
      continue;
    }
    const std::vector<LawFit> own =
        fitted_patterns(recorded[i].found, recorded[i].wanted, wrong[i], 0, recorded[i].allowed);
    if (std::exchange(first, false)) {
      common = own;
      continue;
    }
    std::erase_if(common, [&](const LawFit& law) {
      return std::none_of(own.begin(), own.end(), [&](const LawFit& other) {
        return law.law.name == other.law.name && law.detail == other.detail;
      });
    });
  }
  return common;
}

// ---- heads --------------------------------------------------------------------------------------

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

GradientNaming name_gradients(const Backward& backward,
                              std::span<const RecordedGradient> recorded) {
  GradientNaming found;
  const std::vector<Vectors> wrong = wrong_in(recorded, found.naming.right);
  if (found.naming.right.fits()) {
    return found;
  }
  std::vector<std::pair<LawFit, Branch>> fitting;
  for (const Branch branch : branches_on_the_way(backward, recorded, wrong)) {
    for (const BackwardLaw& law : backward_laws()) {
      if (!is_of(law, branch, backward)) {
        continue;
      }
      const Extent extent =
          extent_of(backward.gradients(branch, law.through(backward, branch)), recorded, wrong);
      if (extent.explains) {
        fitting.push_back({{law.law, {}, extent.share(), {}}, branch});
      }
    }
  }
  const bool holds_everywhere = std::any_of(
      fitting.begin(), fitting.end(), [](const auto& fit) { return fit.first.share >= 1; });
  std::set<Branch> branches;
  for (const auto& [law, branch] : fitting) {
    if (!holds_everywhere || law.share >= 1) {
      found.naming.fitting.push_back(law);
      branches.insert(branch);
    }
  }
  if (branches.size() == 1) {
    found.branch = *branches.begin();
  }
  if (fitting.empty()) {
    found.naming.fitting = common_patterns(recorded, wrong);
  }
  return found;
}

Naming name_gradients(const Backward& backward,
                      Branch branch,
                      std::span<const RecordedGradient> recorded) {
  Naming found;
  const std::vector<Vectors> wrong = wrong_in(recorded, found.right);
  if (found.right.fits()) {
    return found;
  }
  for (const BackwardLaw& law : backward_laws()) {
    if (!is_of(law, branch, backward)) {
      continue;
    }
    const Extent extent = extent_of(law.through(backward, branch), recorded, wrong);
    if (extent.explains) {
      found.fitting.push_back({law.law, {}, extent.share(), {}});
    }
  }
  keep_the_strongest(found.fitting);
  if (found.fitting.empty()) {
    found.fitting = common_patterns(recorded, wrong);
  }
  return found;
}

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
    shares.push_back(
        of_name(backward.through(branch, d_o, backward.right_rule(branch)), recorded.of).data);
  }
  return heads_of_shares(config, shares, difference, n.batch_groups(), bound);
}

}  // namespace oracles
