#include "harness/checks/gradients/local_norms.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace harness::checks {
namespace {

constexpr double kOutlier = 10.0;
constexpr std::size_t kFewestSteps = 8;

using Squares = std::map<std::string, double>;  // by parameter
using Norms = std::map<int, double>;            // by rank

// Of the parameters whose whole gradient came to every rank. Nothing where one is missing or not finite.
Norms norms_of(const std::map<int, Squares>& of_ranks, const std::vector<int>& ranks) {
  Norms norms;
  if (of_ranks.size() != ranks.size()) return norms;
  for (const auto& [rank, squares] : of_ranks) {
    double sum = 0.0;
    for (const auto& [param, square] : squares) {
      const bool everywhere =
          std::all_of(of_ranks.begin(), of_ranks.end(), [&, name = param](const auto& of) {
            return of.second.count(name) > 0;
          });
      if (everywhere) sum += square;
    }
    if (!std::isfinite(sum) || sum <= 0.0) return {};
    norms[rank] = std::sqrt(sum);
  }
  return norms;
}

double median_of_others(const Norms& norms, int rank) {
  std::vector<double> others;
  for (const auto& [other, norm] : norms) {
    if (other != rank) others.push_back(norm);
  }
  std::sort(others.begin(), others.end());
  const std::size_t middle = others.size() / 2;
  return others.size() % 2 == 1 ? others[middle] : (others[middle - 1] + others[middle]) / 2.0;
}

}  // namespace

std::optional<Finding> outlying_norm(const Evidence& evidence) {
  const std::vector<int> ranks = all_ranks(evidence);
  if (ranks.size() < 2) return std::nullopt;
  std::map<std::int64_t, std::map<int, Squares>> steps;
  for (const auto& from : evidence.gradients) {
    const Gradient& row = from.row;
    if (from.process < 0 || row.ready_count == 0 || !row.piece.empty()) continue;
    steps[row.step][from.process][row.param] = row.l2.value * row.l2.value;
  }
  std::vector<Norms> all;
  for (const auto& [step, of_ranks] : steps) {
    if (Norms norms = norms_of(of_ranks, ranks); !norms.empty()) all.push_back(std::move(norms));
  }
  if (all.size() < kFewestSteps) return std::nullopt;
  for (const int rank : ranks) {
    std::vector<double> ratios;
    for (const Norms& norms : all) ratios.push_back(norms.at(rank) / median_of_others(norms, rank));
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    // If there are two ranks, the finding reports how much larger one norm is.
    if (*least < kOutlier && (*most > 1.0 / kOutlier || ranks.size() == 2)) continue;
    Finding finding = make_finding("GRAD.OUTLIER", "norm");
    if (ranks.size() > 2) finding.site.ranks = {rank};
    std::vector<int> others = ranks;
    std::erase(others, rank);
    finding.facts["which"] = process_name(rank);
    finding.facts["others"] = ranks_text(others);
    finding.facts["least"] = *least;
    finding.facts["most"] = *most;
    finding.facts["steps"] = all.size();
    return finding;
  }
  return std::nullopt;
}

}  // namespace harness::checks
