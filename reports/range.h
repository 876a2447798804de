// What `--since` means: a span of time, resolved once with the clock and the zone that the caller gives. No clock in here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace reports {

struct Range {
  std::int64_t since_ms = 0;  // Unix time, UTC, inclusive
  std::int64_t until_ms = 0;  // exclusive
  std::string text;           // "2026-11-20 00:00:00 to 2026-11-21 04:19:00 (UTC+01:00)"
};

// Minutes east of UTC that hold at a moment (a zone's offset changes over the year).
using ZoneOffset = std::function<int(std::int64_t unix_ms)>;

// When the commit was made, or nothing if it is not known; asked only for words that are nothing else.
using CommitTime = std::function<std::optional<std::int64_t>(const std::string& commit)>;

// "today", "yesterday" (from its local midnight), "7d" and "36h" (back from now; days begin at local midnight), an ISO date
// or date and time ("2026-11-20", "2026-11-20T04:19", a trailing Z means UTC), or a commit. Up to and including now_ms.
// Throws: nsa::Error naming the words that are understood.
[[nodiscard]] Range parse_since(const std::string& words,
                                std::int64_t now_ms,
                                const ZoneOffset& zone,
                                const CommitTime& commit_time);

// "2026-11-21 04:19:00" in the zone.
[[nodiscard]] std::string time_text(std::int64_t unix_ms, int offset_minutes);

}  // namespace reports
