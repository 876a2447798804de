// Which commit of a line made it worse: a bisection in which a commit may also be UNKNOWN, because it does not build or what is
// measured there says nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace harness::history {

enum class CommitAnswer { untried, good, bad, unknown };

struct CommitSearch {
  std::optional<std::size_t> next;  // to be tried; nothing: the search is over
  // The first bad commit is one of those from `first` to `last`. All but `last` are unknown once the search is over.
  std::size_t first = 0;
  std::size_t last = 0;
  // The oldest commit is not good, or the newest one not bad: there is nothing to search.
  bool contradicted = false;

  [[nodiscard]] bool is_found() const { return !next && !contradicted && first == last; }
};

// `answers`: of the commits, oldest first; the oldest one is said to be good and the newest one bad, and both are tried first. At
// most 2 + log2(n) tries where none is unknown. REQUIRES: at least two.
[[nodiscard]] CommitSearch search_commits(std::span<const CommitAnswer> answers);

}  // namespace harness::history
