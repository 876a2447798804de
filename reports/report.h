// What a run showed, as text, from the store's rows only: the same rows give the same bytes. No clock, no locale, no
// file is opened; the caller gives the range and what the program is. Text that came from workers is escaped.
// Sections are one file each in reports/sections, in the order of sections/list.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/store/store.h"
#include "reports/nights.h"
#include "reports/timeline.h"

namespace reports {

enum class Format { engineer, summary, html, json, junit, github, perfetto };

// What a report is about. `about_range` is empty for a report of one run, else the absolute range with its zone
// ("2026-11-20 00:00 to 2026-11-21 04:19 (+01:00)", see range.h).
// Several runs are those of one night: each case is decided once, by its newest judgement. Earlier nights are decided each
// alone, and told in a line.
struct ReportRequest {
  std::vector<harness::RunRecord> runs;  // oldest first, at least one
  std::string about_range;
  std::string night;           // the name of the night of `runs`, "" where nights do not matter
  std::vector<Night> earlier;  // of the range, oldest first
  Format format = Format::engineer;
  std::vector<std::pair<std::string, std::string>>
      check_about;  // name, what it judges, in the order of `list`
  std::map<std::int64_t, Timeline>
      timelines;  // by CaseRecord::id, where the events are there: for html and perfetto
};

// As much of the engineers' report as fits into so many bytes: whole sections, and a line that says what was left out.
[[nodiscard]] std::string render_summary(const harness::Store& store,
                                         const ReportRequest& request,
                                         std::size_t most_bytes);

// The report in the format asked for; ends with a newline. Throws: nsa::Error from the store.
[[nodiscard]] std::string render_report(const harness::Store& store, const ReportRequest& request);

// The object that `run --json` prints, without line breaks. `report` is the path of the report's file. A run with a
// bisection has a member "bisect": its object, or a list of objects where there are several (one a point of the axes). A run
// with diagnoses has a list of them in "diagnoses"; their experiments are not among the cases.
[[nodiscard]] nlohmann::json render_json(const harness::Store& store,
                                         const harness::RunRecord& run,
                                         const std::string& report);

// GO, CONDITIONAL GO or NO-GO: GO when every case is PASS; CONDITIONAL GO when beside at least one PASS there are only SKIP,
// INCONCLUSIVE and XFAIL, or where a PASS was watched less closely than its checks need; NO-GO else, also when nothing was judged
// or a run is incomplete. Of commands of the user's own alone: ENDED BY ITSELF where they passed and one was seen from outside
// alone, INCONCLUSIVE where one is not decided. The trials of a bisection of which something is expected count as one case:
// whether it found that.
inline constexpr const char* kEndedByItself = "ENDED BY ITSELF";
inline constexpr const char* kInconclusive = "INCONCLUSIVE";
[[nodiscard]] std::string decision(const std::vector<harness::RunRecord>& runs,
                                   const std::vector<harness::CaseRecord>& cases);

// How many cases passed without some of their checks, which the level of observation left out.
[[nodiscard]] std::size_t not_fully_asked(const std::vector<harness::CaseRecord>& cases);

}  // namespace reports
