#include "nsa/base/hash.h"
#include "nsa/base/text.h"
#include "reports/formats.h"
#include "reports/markdown.h"
#include "reports/sections/alarms.h"
#include "reports/sections/change_kind.h"
#include "reports/sections/failures.h"
#include "reports/sections/wording.h"

namespace reports {
namespace {

constexpr std::size_t kMostBytes = 60'000;
constexpr std::size_t kShownOfSignature = 12;

// How long it has failed in this way without a pass in between, of the case that has failed longest.
std::string since_text(const Failure& failure) {
  std::size_t longest = 0;
  std::string first;
  for (const CaseView* one : failure.cases) {
    const harness::Finding* finding = leading_finding(*one);
    const std::string code = finding == nullptr ? "" : finding->code;
    std::size_t runs = 0;
    for (const harness::Earlier& earlier : one->history) {
      if (earlier.outcome != one->outcome() || earlier.code != code) break;
      if (++runs > longest) {
        longest = runs;
        first = earlier.run;
      }
    }
  }
  return longest == 0 ? "for the first time"
                      : "since run " + escape(first) + " or longer (" +
                            counted(static_cast<std::int64_t>(longest) + 1, "run") + ")";
}

std::string shown(const Failure& failure) {
  return failure.signature.substr(0, kShownOfSignature);
}

std::string open_item(const Failure& failure) {
  return "- [ ] " + outcome_text(failure.outcome) + " " + failure.what + "\n\n   Signature " +
         shown(failure) + "; fails " + since_text(failure) + ".\n" + advice_text(failure);
}

std::string shown(const section::Alarm& alarm) {
  return nsa::hash_hex(alarm.name + alarm.signature).substr(0, kShownOfSignature);
}

std::string alarm_item(const section::Alarm& alarm) {
  const std::string signature = alarm.fails ? "\n\n   Signature " + shown(alarm) + "." : "";
  return std::string(alarm.fails ? "- [ ] " : "- ") + "**" + alarm.name + "** " + alarm.text +
         signature + "\n";
}

std::string fixed_items(const ReportView& view) {
  std::string text;
  for (const CaseView& one : view.cases) {
    if (change_of(one) != Change::fixed) continue;
    const harness::Earlier& before = one.history.front();
    text += "- [x] " + case_name(view, one) + ": was " + harness::name_of(before.outcome) +
            (before.code.empty() ? "" : " " + escape(before.code)) + " in run " +
            escape(before.run) + "\n";
  }
  return text;
}

}  // namespace

std::string issue_text(const ReportView& view) {
  const std::vector<Failure> open = failures(view);
  std::vector<std::string> signatures;
  for (const Failure& failure : open) signatures.push_back(shown(failure));
  const std::vector<section::Alarm> alarms = section::alarms_of(view);
  for (const section::Alarm& alarm : alarms) {
    if (alarm.fails) signatures.push_back(shown(alarm));
  }
  const harness::RunRecord& run = view.request.runs.back();
  std::string text =
      "<!-- nsa-harness signatures: " + nsa::join(signatures, " ") + " -->\n# " + view.decision +
      ": " + escape(why(view)) + "\n\nRun " + escape(run.name) +
      (run.provenance.commit.empty() ? "" : ", commit " + escape(run.provenance.commit)) + ".\n\n";
  std::size_t told = 0;
  for (; told < open.size(); ++told) {
    const std::string item = open_item(open[told]);
    if (text.size() + item.size() > kMostBytes) break;
    text += item;
  }
  if (told < open.size()) {
    text += "\nand " + counted(static_cast<std::int64_t>(open.size() - told), "cause") +
            " more: see the report.\n";
  }
  for (const section::Alarm& alarm : alarms) {
    const std::string item = alarm_item(alarm);
    if (text.size() + item.size() < kMostBytes) text += item;
  }
  const std::string fixed = fixed_items(view);
  if (!fixed.empty() && text.size() + fixed.size() < kMostBytes) {
    text += "\n## Passes again\n\n" + fixed;
  }
  return text;
}

}  // namespace reports
