#include "harness/checks/kernel/wrong_places.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include "harness/scenario/site.h"

namespace harness::checks {
namespace {

using SomePlaces = std::vector<ResultPlace>;
using Belongs = decltype(WrongPart::belongs);

struct Counts {
  std::int64_t wrong = 0;  // in the part
  std::int64_t right = 0;
  std::int64_t right_outside = 0;
};

// None where a wrong place lies outside.
std::optional<Counts> counts_of(const SomePlaces& places, const Belongs& belongs) {
  Counts counts;
  for (const ResultPlace& place : places) {
    const bool inside = belongs(place);
    if (place.wrong && !inside) return std::nullopt;
    counts.wrong += place.wrong ? 1 : 0;
    counts.right += !place.wrong && inside ? 1 : 0;
    counts.right_outside += !place.wrong && !inside ? 1 : 0;
  }
  return counts;
}

// Half of a part is wrong at least. And if as large a share were wrong everywhere, this would be right outside once in a
// thousand times: a few words out of some ten then say more than chance does.
bool tells_apart(const Counts& counts) {
  constexpr double kLeastShare = 0.5;
  constexpr double kByChance = 1e-4;
  const auto wrong = static_cast<double>(counts.wrong);
  const double share = wrong / (wrong + static_cast<double>(counts.right));
  if (share < kLeastShare || counts.right_outside == 0) return false;
  return static_cast<double>(counts.right_outside) * std::log1p(-std::min(share, 1.0 - 1e-9)) <=
         std::log(kByChance);
}

template <typename Value>
std::set<std::int64_t> values_of(const SomePlaces& places, bool wrong_only, Value value) {
  std::set<std::int64_t> values;
  for (const ResultPlace& place : places) {
    if (place.wrong || !wrong_only) values.insert(value(place));
  }
  return values;
}

std::string listed(const char* one, const std::set<std::int64_t>& numbers) {
  return numbers_text(one, {numbers.begin(), numbers.end()});
}

// ---- heads and sequences ---------------------------------------------------------------------------

std::optional<WrongPart> heads_of(const SomePlaces& places, std::int64_t per_group) {
  const auto head = [](const ResultPlace& place) { return std::int64_t{place.head}; };
  const std::set<std::int64_t> wrong = values_of(places, true, head);
  if (wrong.size() == values_of(places, false, head).size()) return std::nullopt;
  const auto group = [=](const ResultPlace& place) { return place.head / per_group; };
  const std::set<std::int64_t> groups = values_of(places, true, group);
  const bool whole = static_cast<std::int64_t>(wrong.size()) ==
                     static_cast<std::int64_t>(groups.size()) * per_group;
  std::string words = listed("head", wrong);
  if (whole && per_group > 1) words += " (all of " + listed("group", groups) + ")";
  return WrongPart{words, [=](const ResultPlace& place) { return wrong.contains(place.head); }};
}

// Of a batch; none where a sequence that is alone is wrong too.
std::optional<WrongPart> sequences_of(const SomePlaces& places) {
  std::set<std::int64_t> wrong;
  std::int64_t most = 0;
  for (const ResultPlace& place : places) {
    most = std::max<std::int64_t>(most, place.sequences);
    if (!place.wrong) continue;
    if (place.sequences < 2) return std::nullopt;
    wrong.insert(place.sequence);
  }
  if (static_cast<std::int64_t>(wrong.size()) >= most) return std::nullopt;
  return WrongPart{listed("sequence", wrong) + " of a batch", [=](const ResultPlace& place) {
                     return place.sequences > 1 && wrong.contains(place.sequence);
                   }};
}

// ---- rows --------------------------------------------------------------------------------------------

constexpr std::int64_t kTiles[] = {128, 64, 32, 16, 8, 4};

// All wrong rows leave the same rest, by the largest number of which that is true.
std::optional<WrongPart> same_rest(const std::set<std::int64_t>& rows) {
  std::int64_t step = 0;
  for (const std::int64_t row : rows) step = std::gcd(step, row - *rows.begin());
  if (step < 2 || rows.size() < 3) return std::nullopt;
  const std::int64_t rest = *rows.begin() % step;
  return WrongPart{"rows = " + std::to_string(rest) + " mod " + std::to_string(step),
                   [=](const ResultPlace& at) { return at.row % step == rest; },
                   true};
}

std::vector<WrongPart> rests_in_tiles(const std::set<std::int64_t>& rows) {
  std::vector<WrongPart> parts;
  for (const std::int64_t tile : kTiles) {
    std::int64_t low = tile;
    std::int64_t high = 0;
    for (const std::int64_t row : rows) {
      low = std::min(low, row % tile);
      high = std::max(high, row % tile);
    }
    const bool repeats = *rows.begin() / tile < *rows.rbegin() / tile;
    if (!repeats || (low == 0 && high == tile - 1)) continue;
    const std::string rests =
        std::to_string(low) + (low < high ? " to " + std::to_string(high) : "");
    parts.push_back({"rows = " + rests + " mod " + std::to_string(tile),
                     [=](const ResultPlace& place) {
                       return low <= place.row % tile && place.row % tile <= high;
                     },
                     true});
  }
  return parts;
}

std::vector<WrongPart> parts_of_rows(const SomePlaces& places) {
  const auto row = [](const ResultPlace& place) { return place.row; };
  const std::set<std::int64_t> rows = values_of(places, true, row);
  const std::int64_t first = *rows.begin();
  const std::int64_t last = *rows.rbegin();
  std::vector<WrongPart> parts;
  if (first == last) {
    parts.push_back({listed("row", rows), [=](const ResultPlace& at) { return at.row == first; }});
  }
  if (first > 1) {  // row 0 has one key, and is right where the sum of one is
    parts.push_back({"rows from " + std::to_string(first) + " on",
                     [=](const ResultPlace& at) { return at.row >= first; }});
  }
  parts.push_back({"the last row of each sequence",
                   [](const ResultPlace& at) { return at.row == at.length - 1; }});
  for (const std::int64_t tile : kTiles) {
    parts.push_back({"the rows behind the last full tile of " + std::to_string(tile),
                     [=](const ResultPlace& at) { return at.row >= at.length / tile * tile; }});
  }
  if (const auto part = same_rest(rows)) parts.push_back(*part);
  parts.push_back(
      {"rows 0 to " + std::to_string(last), [=](const ResultPlace& at) { return at.row <= last; }});
  for (WrongPart& part : rests_in_tiles(rows)) parts.push_back(std::move(part));
  return parts;
}

WrongPart both(const WrongPart& one, const WrongPart& other) {
  return {one.words.empty() ? other.words : one.words + ", " + other.words,
          [=](const ResultPlace& place) { return one.belongs(place) && other.belongs(place); },
          one.repeats || other.repeats};
}

// What tells the wrong places apart: heads, sequences and rows, each of them or none.
std::vector<WrongPart> all_parts(const SomePlaces& places, std::int64_t heads_per_group) {
  std::vector<WrongPart> parts = {{"", [](const ResultPlace&) { return true; }}};
  const auto times = [&](const std::vector<WrongPart>& more) {
    const std::size_t count = parts.size();
    for (std::size_t i = 0; i < count; ++i) {
      for (const WrongPart& one : more) parts.push_back(both(parts[i], one));
    }
  };
  if (const auto sequences = sequences_of(places)) times({*sequences});
  if (const auto heads = heads_of(places, heads_per_group)) times({*heads});
  times(parts_of_rows(places));
  return parts;
}

// Of trials in which something is wrong: a finding tells their names beside the words.
SomePlaces of_wrong_trials(const SomePlaces& places) {
  const std::set<std::int64_t> trials =
      values_of(places, true, [](const ResultPlace& place) { return std::int64_t{place.trial}; });
  SomePlaces some;
  std::copy_if(places.begin(), places.end(), std::back_inserter(some), [&](const auto& place) {
    return trials.contains(place.trial);
  });
  return some;
}

}  // namespace

// The first of those that leave the fewest right places inside: it has the fewest words.
WrongPart part_of(const std::vector<ResultPlace>& places, std::int64_t heads_per_group) {
  const SomePlaces some = of_wrong_trials(places);
  WrongPart best;
  std::optional<std::int64_t> fewest;
  constexpr std::int64_t kFew = 4;  // places that are listed one by one
  const auto wrong =
      std::count_if(some.begin(), some.end(), [](const ResultPlace& place) { return place.wrong; });
  if (wrong < kFew) return best;
  for (WrongPart& part : all_parts(some, heads_per_group)) {
    const auto counts = counts_of(some, part.belongs);
    if (!counts || !tells_apart(*counts) || (fewest && counts->right >= *fewest)) continue;
    best = std::move(part);
    fewest = counts->right;
  }
  return best;
}

}  // namespace harness::checks
