// Which laws give the gradients that were recorded.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "oracles/laws/backward_laws.h"

namespace oracles {
namespace {

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
    std::erase_if(common, [&](LawFit& law) {
      const auto same = std::find_if(own.begin(), own.end(), [&](const LawFit& other) {
        return law.law.name == other.law.name && law.detail == other.detail;
      });
      if (same != own.end()) {
        law.share = std::min(law.share, same->share);
      }
      return same == own.end();
    });
  }
  return common;
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

}  // namespace oracles
