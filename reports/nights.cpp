#include "reports/nights.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "nsa/base/text.h"
#include "reports/range.h"

namespace reports {
namespace {

constexpr std::int64_t kHourInMs = 3'600'000;
constexpr std::int64_t kDayInMs = 24 * kHourInMs;

std::string date_text(std::int64_t unix_ms, int offset_minutes) {
  constexpr std::size_t kDate = 10;
  return time_text(unix_ms, offset_minutes).substr(0, kDate);
}

bool has_judgement(const harness::CaseRecord& record) {
  return record.skip_reason.empty() && record.judgement.has_value();
}

// One that was left out when the time was over says as little as one that was never judged.
bool tells_more(const harness::CaseRecord& record) {
  return has_judgement(record) && record.judgement->outcome != harness::Outcome::skip;
}

// Each option of the plan in which they differ.
harness::Pairs plan_differences(const harness::RunRecord& before, const harness::RunRecord& now) {
  harness::Pairs differ;
  const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
  for (const char* option : kPlanOptions) {
    const std::string was = before.option(option);
    const std::string is = now.option(option);
    if (was != is) differ.emplace_back(option, shown(was) + ", now " + shown(is));
  }
  return differ;
}

BrokenNight broken_night(const harness::Store& store, const harness::RunRecord& run) {
  const std::vector<harness::CaseRecord> cases = store.cases(run.id);
  const auto unjudged = std::count_if(cases.begin(), cases.end(), [](const auto& record) {
    return record.skip_reason.empty() && !record.judgement;
  });
  return {run, cases.size(), static_cast<std::size_t>(unjudged)};
}

}  // namespace

bool EarlierNights::had_other(const std::string& option) const {
  return std::any_of(planned_otherwise.begin(), planned_otherwise.end(), [&](const auto& one) {
    return one.first == option;
  });
}

std::string EarlierNights::plan_text() const {
  std::vector<std::string> parts;
  for (const auto& [option, values] : planned_otherwise) parts.push_back(option + " " + values);
  return parts.empty() ? "" : "planned otherwise: " + nsa::join(parts, "; ");
}

bool is_nightly(const harness::RunRecord& run) {
  return run.option("verb") == "nightly";
}

EarlierNights earlier_nights(const harness::Store& store, const harness::RunRecord& night) {
  EarlierNights earlier;
  std::vector<harness::RunRecord> runs = store.runs(std::numeric_limits<std::int64_t>::min(),
                                                    std::numeric_limits<std::int64_t>::max());
  const auto began = [](const harness::RunRecord& run) {
    return std::pair(run.started_ms, run.id);
  };
  std::erase_if(runs, [&](const harness::RunRecord& run) {
    return began(run) >= began(night) || !is_nightly(run) ||
           run.option("shard") != night.option("shard");
  });
  std::optional<harness::RunRecord> of_other_plan;
  std::int64_t next_ms = night.started_ms;
  bool none_ended = true;
  for (auto run = runs.rbegin(); run != runs.rend() && !earlier.previous; ++run) {
    if (none_ended) {
      const auto missing = missing_nights(run->started_ms, next_ms);
      earlier.missing.insert(earlier.missing.begin(), missing.begin(), missing.end());
      next_ms = run->started_ms;
      none_ended = !run->complete;
    }
    const bool same_plan = plan_differences(*run, night).empty();
    if (same_plan && run->complete) {
      earlier.previous = *run;
    } else if (same_plan) {
      earlier.broken.insert(earlier.broken.begin(), broken_night(store, *run));
    } else if (run->complete && !of_other_plan) {
      of_other_plan = *run;
    }
  }
  if (!earlier.previous && of_other_plan) {
    earlier.previous = of_other_plan;
    earlier.planned_otherwise = plan_differences(*of_other_plan, night);
  }
  if (earlier.previous) earlier.cases = store.cases(earlier.previous->id);
  return earlier;
}

std::vector<std::string> missing_nights(std::int64_t before_ms, std::int64_t now_ms) {
  constexpr std::int64_t kMostNamed = 7;
  const std::int64_t days = (now_ms - before_ms + kDayInMs / 2) / kDayInMs;
  std::vector<std::string> names;
  if (days < 2) return names;
  if (days - 1 > kMostNamed) {
    return {date_text(before_ms + kDayInMs, 0) + " to " +
            date_text(before_ms + (days - 1) * kDayInMs, 0)};
  }
  for (std::int64_t day = 1; day < days; ++day) {
    names.push_back(date_text(before_ms + day * kDayInMs, 0));
  }
  return names;
}

std::vector<Night> split_into_nights(
    const std::vector<harness::RunRecord>& runs,
    const std::function<int(std::int64_t unix_ms)>& offset_minutes) {
  std::map<std::string, Night> nights;  // by name: dates in this form are in the order of time
  for (const harness::RunRecord& run : runs) {
    const std::string morning =
        date_text(run.started_ms + kDayInMs / 2, offset_minutes(run.started_ms));
    nights[morning].name = morning;
    nights[morning].runs.push_back(run);
  }
  std::vector<Night> all;
  for (auto& [name, night] : nights) all.push_back(std::move(night));
  return all;
}

std::vector<harness::CaseRecord> newest_of_each_cell(
    std::vector<harness::CaseRecord> oldest_run_first) {
  std::map<std::string, const harness::CaseRecord*> newest;
  for (const harness::CaseRecord& record : oldest_run_first) {
    const harness::CaseRecord*& known = newest[record.history_id];
    if (known == nullptr || tells_more(record) || !tells_more(*known)) known = &record;
  }
  std::vector<harness::CaseRecord> kept;
  for (harness::CaseRecord& record : oldest_run_first) {
    const bool nameless = record.history_id.empty();
    // Of a cell with several launches those of the newest run.
    if (nameless || newest.at(record.history_id)->run_id == record.run_id) kept.push_back(record);
  }
  return kept;
}

std::vector<harness::RunRecord> runs_that_count(const std::vector<harness::RunRecord>& runs,
                                                const std::vector<harness::CaseRecord>& all,
                                                const std::vector<harness::CaseRecord>& kept) {
  std::set<std::int64_t> superseded;
  for (const harness::CaseRecord& record : all) superseded.insert(record.run_id);
  for (const harness::CaseRecord& record : kept) superseded.erase(record.run_id);
  std::vector<harness::RunRecord> counting = runs;
  std::erase_if(counting,
                [&](const harness::RunRecord& run) { return superseded.contains(run.id); });
  return counting;
}

}  // namespace reports
