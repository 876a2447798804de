// The rates of a self-test: what was planted and what was told.
#include <algorithm>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/list.h"
#include "reports/selftest_tally.h"

namespace reports::section {
namespace {

std::string longest(const FaultTally& tally) {
  if (tally.seconds.empty()) return "–";
  return nsa::to_text(*std::max_element(tally.seconds.begin(), tally.seconds.end()), 3);
}

std::vector<std::string> row_of(const std::string& name, const FaultTally& tally) {
  return {name,
          rate_text(tally.detected, tally.faults),
          rate_text(tally.preferred, tally.faults),
          rate_text(tally.placed, tally.faults),
          longest(tally)};
}

std::string of_tally(const SelftestTally& tally) {
  Table rates(
      {"planted faults", "detected", "preferred code", "right code and place", "longest, s"});
  rates.row(row_of("all", tally.all));
  Table codes({"code wanted", "detected", "preferred code", "right code and place", "longest, s"});
  for (const auto& [code, of_code] : tally.by_code) codes.row(row_of(escape(code), of_code));
  std::string text =
      "Each fault was planted with a drawn seed, layer, rank, step and share of rows, and run "
      "beside the same case without it. "
      "In brackets: per cent, and the 95 % interval (Wilson).\n\n" +
      rates.text() + "False alarms: " + rate_text(tally.alarms, tally.healthy) + " healthy cases.";
  if (tally.undecided > 0)
    text += " Not decided: " + counted(tally.undecided, "healthy case") + ".";
  if (tally.idle > 0) text += " Changed nothing: " + counted(tally.idle, "planted fault") + ".";
  if (tally.left_out > 0) text += " Left out: " + counted(tally.left_out, "case") + ".";
  text += "\n\n";
  if (!tally.missed.empty()) {
    Table missed({"case", "wanted", "told"});
    for (const Missed& one : tally.missed) {
      missed.row({escape(one.label), escape(one.wanted), escape(one.told)});
    }
    text += "What was not told as wanted:\n\n" + missed.text();
  }
  return text + folded("Rates by code", codes.text());
}

std::string selftest_body(const ReportView& view) {
  std::vector<harness::CaseRecord> cases;
  for (const CaseView& one : view.cases) {
    if (is_selftest(one.run)) cases.push_back(one.record);
  }
  return cases.empty() ? "" : of_tally(selftest_tally(cases));
}

}  // namespace

Section selftest() {
  return {"Self-test", &selftest_body, true};
}

}  // namespace reports::section
