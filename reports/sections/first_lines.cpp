// The decision as a title, and what it is about.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/range.h"
#include "reports/sections/change_kind.h"
#include "reports/sections/list.h"
#include "reports/sections/wording.h"

namespace reports::section {
namespace {

// "2 x NVIDIA H200"; the facts name each card apart: gpu0, gpu1, ...
std::vector<std::string> cards_of(const harness::RunRecord& run) {
  std::map<std::string, int> counts;
  for (const auto& [name, value] : run.provenance.machine) {
    if (name.starts_with("gpu") && nsa::parse_int(name.substr(3))) ++counts[value];
  }
  std::vector<std::string> cards;
  for (const auto& [card, count] : counts) {
    cards.push_back(std::to_string(count) + " x " + escape(card));
  }
  return cards;
}

std::string machine_of(const harness::RunRecord& run) {
  constexpr std::array kShown = {"cpu", "gpu", "driver", "torch", "cuda", "nccl"};
  std::vector<std::string> parts = cards_of(run);
  for (const auto& [name, value] : run.provenance.machine) {
    const bool shown = std::find(kShown.begin(), kShown.end(), name) != kShown.end();
    if (shown && !value.empty()) parts.push_back(escape(name) + " " + escape(value));
  }
  return parts.empty() ? "not recorded" : nsa::join(parts);
}

std::string commit_of(const harness::RunRecord& run) {
  const harness::Provenance& from = run.provenance;
  if (from.commit.empty()) return "not of a checkout";
  return escape(from.commit) + (from.dirty ? " with uncommitted changes" : "");
}

std::string took_text(std::int64_t ms) {
  const std::int64_t seconds = ms / 1000;
  if (seconds < 120) return std::to_string(seconds) + " s";
  return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
}

std::string ended_of(const harness::RunRecord& run) {
  if (run.exit_code < 0) return "never ended";
  return "took " + took_text(run.ended_ms - run.started_ms) + ", exit code " +
         std::to_string(run.exit_code);
}

// How many cases of one run have each outcome.
std::string tally_of(const ReportView& view, const harness::RunRecord& run) {
  std::vector<CaseView> cases;
  for (const CaseView& one : view.cases) {
    if (one.run.id == run.id) cases.push_back(one);
  }
  return tally(cases).empty() ? "no case" : tally(cases);
}

// What the case of a report of one case is compared with; where there are several, each row of "What changed" names its own.
std::string compared_with(const ReportView& view) {
  if (view.cases.size() != 1 || view.cases.front().history.empty()) return "";
  const harness::Earlier& before = view.cases.front().history.front();
  return "; compared with run " + escape(before.run) + " of " + time_text(before.started_ms, 0) +
         " UTC, which ended with " + harness::name_of(before.outcome);
}

std::string since_text(const ReportView& view) {
  std::map<Change, std::int64_t> counts;
  for (const CaseView& one : view.cases) ++counts[change_of(one)];
  constexpr std::array kTold = {Change::fresh,
                                Change::returned,
                                Change::changed,
                                Change::still,
                                Change::fixed,
                                Change::undecided,
                                Change::not_run};
  std::vector<std::string> parts;
  for (const Change change : kTold) {
    if (counts[change] > 0) parts.push_back(std::to_string(counts[change]) + " " + name_of(change));
  }
  if (counts[Change::first] == static_cast<std::int64_t>(view.cases.size())) {
    return "nothing to compare with: every case ran for the first time";
  }
  if (counts[Change::first] > 0) {
    parts.push_back(std::to_string(counts[Change::first]) + " for the first time");
  }
  if (parts.empty()) return "nothing changed: every case passed again" + compared_with(view);
  return "**" + parts.front() + "**" + (parts.size() > 1 ? ", " : "") +
         nsa::join(std::vector<std::string>(parts.begin() + 1, parts.end())) + compared_with(view);
}

// Which profile the cases had; and where an earlier run of the same name had another one, since cards may have vanished.
std::string profile_text(const ReportView& view) {
  std::map<std::string, std::int64_t> counts;
  std::map<std::string, std::int64_t> earlier;
  for (const CaseView& one : view.cases) {
    ++counts[one.record.profile];
    // A night lists cases of both profiles under one name, and its comparison matches them by content.
    if (view.nightly.empty() && one.namesake && one.namesake->profile != one.record.profile) {
      ++earlier[one.namesake->profile];
    }
  }
  const auto name = [](const std::string& profile) {
    return profile.empty() ? "none" : escape(profile);
  };
  std::vector<std::string> parts;
  for (const auto& [profile, count] : counts) {
    parts.push_back(counts.size() == 1 ? name(profile)
                                       : name(profile) + " (" + counted(count, "case") + ")");
  }
  std::string text = nsa::join(parts);
  for (const auto& [profile, count] : earlier) {
    text +=
        "; **" + counted(count, "case") + " had profile " + name(profile) + " in the run before**";
  }
  return text;
}

std::string runs_table(const ReportView& view) {
  Table table({"run", "started", "end", "commit", "cases"});
  for (const harness::RunRecord& run : view.request.runs) {
    table.row({escape(run.name),
               time_text(run.started_ms, 0) + " UTC",
               ended_of(run),
               commit_of(run),
               tally_of(view, run)});
  }
  return table.text();
}

std::string night_before_text(const NightBefore& one) {
  const auto& previous = one.earlier.previous;
  if (!previous) return "there is none: this is the first night that ended";
  const std::string plan = one.earlier.plan_text();
  return comparison_line(one.comparison) + " (run " + escape(previous->name) +
         (plan.empty() ? "" : ", " + escape(plan)) + ")";
}

// Of nights with several shards or plans one row each.
void add_nights_before(Table& table, const ReportView& view) {
  for (const NightBefore& one : view.nightly) {
    const std::string which = one.name.empty() ? "" : ", " + escape(one.name);
    table.row({"Against the previous night" + which, night_before_text(one)});
  }
}

// What the newest night did not undo: names of what failed, a few.
std::string failed_in(const DecidedNight& night) {
  constexpr std::size_t kMostNames = 4;
  std::vector<std::string> names;
  for (const harness::CaseRecord& record : night.cases) {
    if (severity(harness::outcome_of(record)) <= severity(harness::Outcome::error)) {
      names.push_back(escape(record.label));
    }
  }
  const std::size_t all = names.size();
  if (all > kMostNames) names.resize(kMostNames);
  const std::string more =
      all > kMostNames ? " and " + std::to_string(all - kMostNames) + " more" : "";
  return all == 0 ? "–" : nsa::join(names) + more;
}

// Each night is decided alone.
std::string nights_table(const ReportView& view) {
  if (view.nights.empty()) return "";
  Table table({"night to", "decision", "cases", "what failed", "runs"});
  for (auto night = view.nights.rbegin(); night != view.nights.rend(); ++night) {
    std::vector<std::string> runs;
    for (const harness::RunRecord& run : night->runs) runs.push_back(escape(run.name));
    table.row({escape(night->name),
               "**" + night->decision + "**",
               tally(night->cases).empty() ? "none" : tally(night->cases),
               failed_in(*night),
               nsa::join(runs)});
  }
  return table.text();
}

std::string head_body(const ReportView& view) {
  const auto& runs = view.request.runs;
  const harness::RunRecord& last = runs.back();
  std::string text = "# " + view.decision + ": " + why(view) + "\n\n";
  const bool alone = runs.size() == 1;
  const std::string& range = view.request.about_range;
  Table table(
      alone
          ? std::vector<std::string>{"Run",
                                     escape(last.name) + ", started " +
                                         time_text(last.started_ms, 0) + " UTC, " + ended_of(last)}
          : std::vector<std::string>{
                "Runs", std::to_string(runs.size()) + (range.empty() ? "" : ", " + escape(range))});
  table.row({"Cases", view.cases.empty() ? "none" : tally(view.cases)});
  if (alone && !range.empty()) table.row({"Range", escape(range)});
  add_nights_before(table, view);
  if (!view.cases.empty()) {
    if (view.nightly.empty()) table.row({"Against earlier runs", since_text(view)});
    table.row({"Profile", profile_text(view)});
  }
  if (alone) table.row({"Commit", commit_of(last)});
  table.row({"Machine", machine_of(last)});
  return text + table.text() + nights_table(view) + (alone ? "" : runs_table(view));
}

}  // namespace

Section head() {
  return {"", &head_body, true};
}

}  // namespace reports::section
