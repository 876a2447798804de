#include "reports/range.h"

#include <array>
#include <cctype>
#include <limits>

#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace reports {
namespace {

constexpr std::int64_t kMinuteMs = 60'000;
constexpr std::int64_t kHourMs = 60 * kMinuteMs;
constexpr std::int64_t kDayMs = 24 * kHourMs;

struct Civil {
  std::int64_t year = 1970;
  int month = 1;
  int day = 1;
};

// Howard Hinnant, "chrono-compatible low-level date algorithms": days since 1970-01-01 of the Gregorian calendar.
std::int64_t days_from_civil(const Civil& date) {
  const std::int64_t year = date.year - (date.month <= 2 ? 1 : 0);
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year =
      (153 * (date.month + (date.month > 2 ? -3 : 9)) + 2) / 5 + date.day - 1;
  const std::int64_t day_of_era =
      year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146'097 + day_of_era - 719'468;
}

Civil civil_from_days(std::int64_t days) {
  days += 719'468;
  const std::int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const std::int64_t day_of_era = days - era * 146'097;
  const std::int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const std::int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t month_index = (5 * day_of_year + 2) / 153;
  Civil date;
  date.day = static_cast<int>(day_of_year - (153 * month_index + 2) / 5 + 1);
  date.month = static_cast<int>(month_index < 10 ? month_index + 3 : month_index - 9);
  date.year = year_of_era + era * 400 + (date.month <= 2 ? 1 : 0);
  return date;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// The moment at which the local clock shows `local_ms`. The offset is that of the moment itself: asked twice, since the
// first answer is for a moment up to a day away.
std::int64_t to_unix(std::int64_t local_ms, const ZoneOffset& zone) {
  std::int64_t guess = local_ms - zone(local_ms) * kMinuteMs;
  for (int i = 0; i < 2; ++i) guess = local_ms - zone(guess) * kMinuteMs;
  return guess;
}

// Local midnight of the day `days_back` days before that of `now_ms`.
std::int64_t midnight(std::int64_t now_ms, int days_back, const ZoneOffset& zone) {
  const std::int64_t local = now_ms + zone(now_ms) * kMinuteMs;
  return to_unix((floor_div(local, kDayMs) - days_back) * kDayMs, zone);
}

std::string two(std::int64_t number) {
  return (number < 10 ? "0" : "") + std::to_string(number);
}

std::string offset_text(int minutes) {
  const int absolute = minutes < 0 ? -minutes : minutes;
  return std::string("UTC") + (minutes < 0 ? "-" : "+") + two(absolute / 60) + ":" +
         two(absolute % 60);
}

// Fixed-width digits of `text` at `at`, or -1.
int digits(const std::string& text, std::size_t at, std::size_t count) {
  int value = 0;
  if (at + count > text.size()) return -1;
  for (std::size_t i = at; i < at + count; ++i) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) return -1;
    value = 10 * value + (text[i] - '0');
  }
  return value;
}

bool leap(int year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int days_of_month(int year, int month) {
  constexpr std::array kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && leap(year) ? 29 : kDays[static_cast<std::size_t>(month - 1)];
}

[[noreturn]] void refuse(const std::string& words, const std::string& why) {
  throw nsa::Error("--since " + words + ": " + why +
                   "; wanted today, yesterday, a span (7d, 36h), a date (2026-11-20, "
                   "2026-11-20T04:19) or a commit");
}

// "T04:19", "T04:19:30" (or a space for the T), as milliseconds of the day; -1 if it is no time.
std::int64_t time_of_day(const std::string& text) {
  if (text.empty()) return 0;
  if ((text.size() != 6 && text.size() != 9) || (text[0] != 'T' && text[0] != ' ') ||
      text[3] != ':') {
    return -1;
  }
  const int hour = digits(text, 1, 2);
  const int minute = digits(text, 4, 2);
  const int second = text.size() == 9 ? (text[6] == ':' ? digits(text, 7, 2) : -1) : 0;
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return -1;
  return hour * kHourMs + minute * kMinuteMs + second * 1000;
}

std::optional<std::int64_t> parse_date(const std::string& words, const ZoneOffset& zone) {
  if (words.size() < 10 || words[4] != '-' || words[7] != '-') return std::nullopt;
  const int year = digits(words, 0, 4);
  const int month = digits(words, 5, 2);
  const int day = digits(words, 8, 2);
  if (year < 0 || month < 0 || day < 0) return std::nullopt;
  if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_of_month(year, month)) {
    refuse(words, "there is no such day");
  }
  std::string rest = words.substr(10);
  const bool utc = !rest.empty() && rest.back() == 'Z';
  if (utc) rest.pop_back();
  const std::int64_t time = time_of_day(rest);
  if (time < 0) refuse(words, "there is no such time");
  const std::int64_t local = days_from_civil({year, month, day}) * kDayMs + time;
  return utc ? local : to_unix(local, zone);
}

std::optional<std::int64_t> parse_span(const std::string& words,
                                       std::int64_t now_ms,
                                       const ZoneOffset& zone) {
  if (words.size() < 2) return std::nullopt;
  const auto number = nsa::parse_int(words.substr(0, words.size() - 1));
  const char unit = words.back();
  if (!number || (unit != 'd' && unit != 'h')) return std::nullopt;
  constexpr std::int64_t kMostDays = 36'500;
  if (*number < 0 || *number > kMostDays * (unit == 'h' ? 24 : 1)) refuse(words, "out of range");
  if (unit == 'h') return now_ms - *number * kHourMs;
  return midnight(now_ms, static_cast<int>(*number), zone);
}

}  // namespace

std::string time_text(std::int64_t unix_ms, int offset_minutes) {
  const std::int64_t local = unix_ms + offset_minutes * kMinuteMs;
  const std::int64_t day = floor_div(local, kDayMs);
  const std::int64_t rest = local - day * kDayMs;
  const Civil date = civil_from_days(day);
  return std::to_string(date.year) + "-" + two(date.month) + "-" + two(date.day) + " " +
         two(rest / kHourMs) + ":" + two(rest / kMinuteMs % 60) + ":" + two(rest / 1000 % 60);
}

Range parse_since(const std::string& words,
                  std::int64_t now_ms,
                  const ZoneOffset& zone,
                  const CommitTime& commit_time) {
  std::optional<std::int64_t> since;
  if (words == "today") since = midnight(now_ms, 0, zone);
  if (words == "yesterday") since = midnight(now_ms, 1, zone);
  if (!since) since = parse_span(words, now_ms, zone);
  if (!since) since = parse_date(words, zone);
  if (!since && commit_time) since = commit_time(words);
  if (!since) refuse(words, "neither a time nor a known commit");
  if (*since > now_ms) refuse(words, "lies in the future");
  Range range;
  range.since_ms = *since;
  range.until_ms = now_ms + 1;
  const int from = zone(range.since_ms);
  const int to = zone(now_ms);
  range.text = time_text(range.since_ms, from) +
               (from == to ? "" : " (" + offset_text(from) + ")") + " to " + time_text(now_ms, to) +
               " (" + offset_text(to) + ")";
  return range;
}

}  // namespace reports
