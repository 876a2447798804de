#include "oracles/attention/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace oracles {
namespace {

double ordering_score(double score) {
  return std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
}

// The list up to the first negative entry; nothing where it does not ascend strictly or has
// something but -1 after it.
std::optional<std::vector<std::int64_t>> listed_blocks(std::span<const std::int64_t> taken) {
  const auto end =
      std::find_if(taken.begin(), taken.end(), [](std::int64_t block) { return block < 0; });
  const bool padded = std::all_of(end, taken.end(), [](std::int64_t block) { return block == -1; });
  const bool ascends = std::adjacent_find(taken.begin(), end, std::greater_equal<>()) == end;
  if (!padded || !ascends) {
    return std::nullopt;
  }
  return std::vector<std::int64_t>(taken.begin(), end);
}

bool contains(const std::vector<std::int64_t>& ascending, std::int64_t block) {
  return std::binary_search(ascending.begin(), ascending.end(), block);
}

// Same length, and they differ in candidates only.
bool differ_in_candidates_only(const AttentionConfig& config,
                               std::int64_t t,
                               const std::vector<std::int64_t>& own,
                               const std::vector<std::int64_t>& other) {
  const auto fits = [&](const std::vector<std::int64_t>& from,
                        const std::vector<std::int64_t>& into) {
    return std::all_of(from.begin(), from.end(), [&](std::int64_t block) {
      return contains(into, block) || is_candidate(config, t, block);
    });
  };
  return own.size() == other.size() && fits(own, other) && fits(other, own);
}

}  // namespace

bool is_forced(const AttentionConfig& config, std::int64_t t, std::int64_t block) {
  const std::int64_t current = t / config.l_sel;
  const bool initial = block < config.init_blocks;
  const bool local = block > current - config.local_blocks;
  return block >= 0 && block <= current && (initial || local);
}

bool is_candidate(const AttentionConfig& config, std::int64_t t, std::int64_t block) {
  return block >= 0 && (block + 1) * config.l_sel <= t + 1 && !is_forced(config, t, block);
}

Selection select_blocks(const AttentionConfig& config,
                        std::int64_t t,
                        std::span<const double> scores_N) {
  Selection selection;
  std::vector<std::int64_t> candidates;
  for (std::int64_t block = 0; block <= t / config.l_sel; ++block) {
    if (is_forced(config, t, block)) {
      selection.blocks.push_back(block);
    } else if (is_candidate(config, t, block)) {
      candidates.push_back(block);
    }
  }
  // Stable: equal scores keep the lower index first.
  std::stable_sort(candidates.begin(), candidates.end(), [&](std::int64_t a, std::int64_t b) {
    return ordering_score(scores_N[a]) > ordering_score(scores_N[b]);
  });
  const auto places = static_cast<std::size_t>(config.n_sel) - selection.blocks.size();
  const std::size_t taken = std::min(places, candidates.size());
  selection.margin = taken == 0 || taken == candidates.size()
                         ? std::numeric_limits<double>::infinity()
                         : scores_N[candidates[taken - 1]] - scores_N[candidates[taken]];
  selection.blocks.insert(selection.blocks.end(), candidates.begin(), candidates.begin() + taken);
  std::sort(selection.blocks.begin(), selection.blocks.end());
  return selection;
}

Comparison compare_selection(const AttentionConfig& config,
                             std::int64_t t,
                             std::span<const double> scores_N,
                             std::span<const double> bounds_N,
                             std::span<const std::int64_t> taken) {
  const std::vector<std::int64_t> own = select_blocks(config, t, scores_N).blocks;
  const std::optional<std::vector<std::int64_t>> other = listed_blocks(taken);
  if (!other || !differ_in_candidates_only(config, t, own, *other)) {
    return {Agreement::wrong, 0, 0};
  }
  if (*other == own) {
    return {};
  }
  // The other choice is the first under some scores s' with |s' - s| <= bound exactly if every
  // candidate it took can reach every candidate it left. The hardest pair decides: the candidate
  // left whose lowest s' is highest, and the one taken whose highest s' is lowest.
  std::optional<std::int64_t> hardest_left;
  std::optional<std::int64_t> hardest_taken;
  const auto lowest = [&](std::int64_t block) { return scores_N[block] - bounds_N[block]; };
  const auto highest = [&](std::int64_t block) { return scores_N[block] + bounds_N[block]; };
  for (std::int64_t block = 0; block <= t / config.l_sel; ++block) {
    if (!is_candidate(config, t, block)) {
      continue;
    }
    if (std::isnan(scores_N[block]) || std::isnan(bounds_N[block])) {
      return {Agreement::wrong, 0, 0};
    }
    if (contains(*other, block)) {
      const bool harder = !hardest_taken || highest(block) < highest(*hardest_taken);
      hardest_taken = harder ? block : hardest_taken;
    } else {
      const bool harder = !hardest_left || lowest(block) > lowest(*hardest_left);
      hardest_left = harder ? block : hardest_left;
    }
  }
  const double gap = scores_N[*hardest_left] - scores_N[*hardest_taken];
  const double bound = bounds_N[*hardest_left] + bounds_N[*hardest_taken];
  return {gap <= bound ? Agreement::tied : Agreement::wrong, gap, bound};
}

}  // namespace oracles
