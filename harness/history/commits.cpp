#include "harness/history/commits.h"

#include <utility>

namespace harness::history {
namespace {

// The untried one nearest to the middle of those between `good` and `bad`.
std::optional<std::size_t> nearest_untried(std::span<const CommitAnswer> answers,
                                           std::size_t good,
                                           std::size_t bad) {
  const std::size_t middle = good + (bad - good) / 2;
  for (std::size_t away = 0; away < bad - good; ++away) {
    const bool below = middle >= good + 1 + away;
    if (below && answers[middle - away] == CommitAnswer::untried) return middle - away;
    const bool above = middle + away < bad;
    if (above && answers[middle + away] == CommitAnswer::untried) return middle + away;
  }
  return std::nullopt;
}

}  // namespace

CommitSearch search_commits(std::span<const CommitAnswer> answers) {
  std::size_t good = 0;
  std::size_t bad = answers.size() - 1;
  CommitSearch search{std::nullopt, good + 1, bad, false};
  for (const auto& [end, wanted] :
       {std::pair(bad, CommitAnswer::bad), std::pair(good, CommitAnswer::good)}) {
    if (answers[end] == CommitAnswer::untried) {
      search.next = end;
      return search;
    }
    search.contradicted = search.contradicted || answers[end] != wanted;
  }
  if (search.contradicted) return search;
  for (std::size_t i = bad; i-- > 0;) {
    if (answers[i] == CommitAnswer::bad) bad = i;
  }
  for (std::size_t i = 0; i < bad; ++i) {
    if (answers[i] == CommitAnswer::good) good = i;
  }
  search.first = good + 1;
  search.last = bad;
  search.next = nearest_untried(answers, good, bad);
  return search;
}

}  // namespace harness::history
