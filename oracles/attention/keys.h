// Which keys a query may see, branch by branch (golden README, "Compressed branch" to "Window
// branch"), as ranges of consecutive key indices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracles/attention/config.h"

namespace oracles {

enum class Branch { cmp, sel, win };

// [begin, end), never empty.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
// Disjoint and ascending.
using KeyList = std::vector<KeyRange>;

std::int64_t key_count(const KeyList& keys);

// Appends [begin, end), joined to the last range where it continues it; nothing where it is empty.
// REQUIRES: begin is not before the end of the last range.
void append_range(KeyList& keys, std::int64_t begin, std::int64_t end);

// Compressed tokens i with i*d + l - 1 <= t, of `count` there are.
KeyList visible_compressed(const AttentionConfig& config, std::int64_t t, std::int64_t count);

// Tokens u <= t of the blocks listed; a negative entry ends the list.
KeyList selected_tokens(const AttentionConfig& config,
                        std::int64_t t,
                        std::span<const std::int64_t> blocks);

// Tokens u with t - w < u <= t.
KeyList window_tokens(const AttentionConfig& config, std::int64_t t);

// One query of one branch.
struct Query {
  const AttentionConfig& config;
  Branch branch;
  std::int64_t t;
  std::int64_t key_count;                // of the branch: all compressed tokens, or all tokens
  std::span<const std::int64_t> blocks;  // chosen for it
};
KeyList visible_keys(const Query& query);

}  // namespace oracles
