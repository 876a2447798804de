// --since, with the clock and the zone given.
#include "reports/range.h"

#include <gtest/gtest.h>

#include "nsa/base/error.h"

namespace {

using reports::parse_since;
using reports::Range;

constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::int64_t kNowMs = 1'795'234'740'000;  // 2026-11-21 04:19:00 UTC

int utc(std::int64_t) {
  return 0;
}
int east(std::int64_t) {
  return 60;
}
// Central Europe in autumn 2026: summer time ends on 25 October, 01:00 UTC.
int with_change(std::int64_t unix_ms) {
  return unix_ms < 1'792'890'000'000 ? 120 : 60;
}
std::optional<std::int64_t> no_commit(const std::string&) {
  return std::nullopt;
}

Range since(const std::string& words, const reports::ZoneOffset& zone = utc) {
  return parse_since(words, kNowMs, zone, no_commit);
}

TEST(TimeText, KnowsTheCalendar) {
  EXPECT_EQ(reports::time_text(kNowMs, 0), "2026-11-21 04:19:00");
  EXPECT_EQ(reports::time_text(kNowMs, -300), "2026-11-20 23:19:00");
  EXPECT_EQ(reports::time_text(0, 0), "1970-01-01 00:00:00");
  EXPECT_EQ(reports::time_text(951'782'400'000, 0), "2000-02-29 00:00:00");
  EXPECT_EQ(reports::time_text(-1'000, 0), "1969-12-31 23:59:59");
}

TEST(Since, YesterdayIsFromItsLocalMidnight) {
  EXPECT_EQ(since("yesterday").text, "2026-11-20 00:00:00 to 2026-11-21 04:19:00 (UTC+00:00)");
  const Range local = since("yesterday", east);
  EXPECT_EQ(local.text, "2026-11-20 00:00:00 to 2026-11-21 05:19:00 (UTC+01:00)");
  EXPECT_EQ(local.since_ms, since("yesterday").since_ms - kHourMs);
  EXPECT_EQ(local.until_ms, kNowMs + 1);
  EXPECT_EQ(since("today").text, "2026-11-21 00:00:00 to 2026-11-21 04:19:00 (UTC+00:00)");
}

TEST(Since, SpansGoBackFromNow) {
  EXPECT_EQ(since("7d").text, "2026-11-14 00:00:00 to 2026-11-21 04:19:00 (UTC+00:00)");
  EXPECT_EQ(since("36h").since_ms, kNowMs - 36 * kHourMs);
  EXPECT_EQ(since("0d").since_ms, since("today").since_ms);
}

TEST(Since, TheZoneIsThatOfTheMoment) {
  const Range range = since("30d", with_change);
  EXPECT_EQ(range.text, "2026-10-22 00:00:00 (UTC+02:00) to 2026-11-21 05:19:00 (UTC+01:00)");
}

TEST(Since, DatesAndTimes) {
  EXPECT_EQ(since("2026-11-20").since_ms, since("yesterday").since_ms);
  EXPECT_EQ(since("2026-11-20T12:30", east).since_ms, since("2026-11-20T11:30:00Z", east).since_ms);
  EXPECT_EQ(since("2024-02-29").text.substr(0, 19), "2024-02-29 00:00:00");
}

TEST(Since, Commits) {
  const auto known = [](const std::string& name) {
    return name == "abc123" ? std::optional<std::int64_t>(kNowMs - 5 * kHourMs) : std::nullopt;
  };
  EXPECT_EQ(parse_since("abc123", kNowMs, utc, known).since_ms, kNowMs - 5 * kHourMs);
  EXPECT_THROW((void)parse_since("def456", kNowMs, utc, known), nsa::Error);
}

TEST(Since, RefusesWhatIsNoTime) {
  for (const char* words : {"",
                            "tomorrow",
                            "-1d",
                            "d",
                            "7",
                            "99999999d",
                            "2026-13-01",
                            "2026-02-29",
                            "2026-11-20T25:00",
                            "2026-11-20T1",
                            "2027-01-01",
                            "1969-12-31"}) {
    EXPECT_THROW((void)since(words), nsa::Error) << words;
  }
}

}  // namespace
