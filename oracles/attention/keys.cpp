#include "oracles/attention/keys.h"

#include <algorithm>

namespace oracles {

std::int64_t key_count(const KeyList& keys) {
  std::int64_t count = 0;
  for (const KeyRange& range : keys) {
    count += range.end - range.begin;
  }
  return count;
}

void append_range(KeyList& keys, std::int64_t begin, std::int64_t end) {
  if (begin >= end) {
    return;
  }
  if (!keys.empty() && keys.back().end == begin) {
    keys.back().end = end;
  } else {
    keys.push_back({begin, end});
  }
}

KeyList visible_compressed(const AttentionConfig& config, std::int64_t t, std::int64_t count) {
  const std::int64_t complete = t + 1 < config.l ? 0 : (t + 1 - config.l) / config.d + 1;
  KeyList keys;
  append_range(keys, 0, std::min(complete, count));
  return keys;
}

KeyList selected_tokens(const AttentionConfig& config,
                        std::int64_t t,
                        std::span<const std::int64_t> blocks) {
  KeyList keys;
  for (const std::int64_t block : blocks) {
    if (block < 0) {
      break;
    }
    append_range(keys, block * config.l_sel, std::min((block + 1) * config.l_sel, t + 1));
  }
  return keys;
}

KeyList window_tokens(const AttentionConfig& config, std::int64_t t) {
  KeyList keys;
  append_range(keys, std::max<std::int64_t>(0, t - config.w + 1), t + 1);
  return keys;
}

KeyList visible_keys(const Query& query) {
  switch (query.branch) {
    case Branch::cmp: return visible_compressed(query.config, query.t, query.key_count);
    case Branch::sel: return selected_tokens(query.config, query.t, query.blocks);
    default: return window_tokens(query.config, query.t);
  }
}

}  // namespace oracles
