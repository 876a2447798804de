// Title and metadata.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/range.h"
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

std::string head_body(const ReportView& view) {
  const auto& runs = view.request.runs;
  const harness::RunRecord& last = runs.back();
  std::string text =
      runs.size() == 1
          ? "# Report of run " + escape(last.name) + "\n\n"
          : "# Report of " + counted(static_cast<std::int64_t>(runs.size()), "run") + "\n\n";
  Table table({"", ""});
  table.row({"Decision", "**" + view.decision + "**"});
  table.row({"Cases", tally(view.cases).empty() ? "none" : tally(view.cases)});
  if (!view.request.about_range.empty()) table.row({"Range", escape(view.request.about_range)});
  table.row({"Started", time_text(last.started_ms, 0) + " UTC"});
  table.row({"Ended", last.ended_ms > 0 ? time_text(last.ended_ms, 0) + " UTC" : "never"});
  table.row({"Commit", commit_of(last)});
  table.row({"Machine", machine_of(last)});
  table.row({"Exit code",
             last.exit_code >= 0 ? std::to_string(last.exit_code) : "none: the run did not end"});
  return text + table.text();
}

}  // namespace

Section head() {
  return {"", &head_body, true};
}

}  // namespace reports::section
