#include "reports/sections/failures.h"

#include <algorithm>
#include <map>

#include "nsa/base/hash.h"
#include "nsa/base/text.h"
#include "reports/markdown.h"
#include "reports/sections/again.h"
#include "reports/sections/change_kind.h"
#include "reports/sections/wording.h"

namespace reports {
namespace {

using harness::Finding;
using harness::Outcome;

constexpr std::size_t kMostCommands = 10;  // the rest is read case by case below
constexpr std::size_t kMostItems = 100;

// Alike: the same code at the same site in the same scenario; without a finding, the same reason wherever it is.
std::string signature_of(const CaseView& one) {
  const Finding* finding = leading_finding(one);
  std::vector<std::string> parts = {harness::name_of(one.outcome())};
  if (finding == nullptr) {
    parts.push_back(one.reason());
  } else {
    parts.insert(parts.end(), {one.record.scenario, finding->code, finding->site.text()});
  }
  return nsa::hash_hex(nsa::join(parts, "\n"));
}

// "(new)", "(2 new, 1 still failing)"
std::string changes_text(const Cases& cases) {
  std::map<Change, std::size_t> counts;
  for (const CaseView* one : cases) ++counts[change_of(*one)];
  std::vector<std::string> parts;
  for (const auto& [change, count] : counts) {
    if (change == Change::undecided) continue;  // the outcome says so
    parts.push_back((counts.size() > 1 ? std::to_string(count) + " " : "") + name_of(change));
  }
  return parts.empty() ? "" : " (" + nsa::join(parts) + ")";
}

// Of several causes that nothing ties, the others are told below.
std::string others_text(const CaseView& one) {
  const std::vector<Finding>& all = one.record.judgement->findings;
  const auto causes = std::count_if(all.begin(), all.end(), [](const Finding& finding) {
    return finding.role == harness::Role::initiating;
  });
  return causes < 2 ? "" : " This is one of " + std::to_string(causes) + " independent causes.";
}

// The case in a file that fails on another machine, too; "" of what no bundle is made of.
std::string bundle_command(const CaseView& one) {
  const bool failed = one.outcome() != Outcome::error && leading_finding(one) != nullptr;
  if (!failed || !one.the_case || one.the_case->scenario.is_command()) return "";
  return bundle_again(one) + "  # one file for a colleague";
}

Failure failure_of(const ReportView& view, const Cases& cases) {
  const CaseView& first = *cases.front();
  const Finding* finding = leading_finding(first);
  Failure item;
  item.outcome = first.outcome();
  item.signature = signature_of(first);
  item.cases = cases;
  const bool several = by_scenario(cases).size() > 1;
  constexpr std::size_t kMostNames = 6;
  item.what = several ? count_text(cases) + " (" + scenarios_text(cases, kMostNames) + ")"
                      : group_name(view, cases);
  if (!first.planted().empty()) {
    item.what += ", with the planted fault " + escape(first.planted());
  }
  item.what += changes_text(cases) + ": ";
  if (finding == nullptr) {
    item.what += escape(first.reason());
  } else {
    item.what +=
        "**" + finding_title(*finding) + "** — " + escape(finding->statement) + others_text(first);
    item.next = escape(finding->next_action);
  }
  item.command = case_again(first);
  const std::string bundle = bundle_command(first);
  if (!bundle.empty()) item.command += "\n" + bundle;
  return item;
}

// Of a search: its answer, and what the minimal set does.
Failure failure_of(const ReportView& view, const harness::Bisection& bisection) {
  Failure item;
  item.outcome = bisection.outcome().value_or(Outcome::fail);
  item.signature = nsa::hash_hex("bisection\n" + bisection.label);
  item.what = "bisection of " + escape(bisection.label) + " over " + escape(bisection.over) + ": " +
              escape(bisection.progress.conclusion);
  if (!bisection.missed.empty()) item.what += "; " + escape(bisection.missed);
  for (const CaseView& one : view.cases) {
    if (bisection.records.empty() || one.record.id != bisection.records.front()->id) continue;
    item.command = case_again(one);
    const Finding* finding = leading_finding(one);
    if (finding == nullptr) continue;
    item.what += ". With all of them: **" + finding_title(*finding) + "**";
    item.next = escape(finding->next_action);
  }
  return item;
}

bool needs_telling(const harness::Bisection& bisection) {
  // Not begun: its first trial is told as the skipped case it is.
  if (!bisection.trials.empty() && bisection.trials.front().outcome == Outcome::skip) return false;
  const auto outcome = bisection.outcome();
  if (outcome) return is_failure(*outcome);
  return bisection.progress.state != harness::BisectProgress::State::nothing_breaks;
}

}  // namespace

bool is_failure(Outcome outcome) {
  return severity(outcome) <= severity(Outcome::error);
}

Cases failed_cases(const ReportView& view) {
  Cases failed = all_cases(view);
  std::erase_if(failed,
                [](const CaseView* one) { return !is_failure(one->outcome()) || is_trial(*one); });
  return failed;
}

std::vector<Failure> failures(const ReportView& view) {
  std::vector<Cases> groups;
  std::map<std::string, std::size_t> known;  // by signature
  for (const CaseView* one : failed_cases(view)) {
    const auto [at, is_new] = known.try_emplace(signature_of(*one), groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(one);
  }
  std::vector<Failure> items;
  for (const harness::Bisection& bisection : view.bisections) {
    if (needs_telling(bisection)) items.push_back(failure_of(view, bisection));
  }
  for (const Cases& group : groups) items.push_back(failure_of(view, group));
  std::stable_sort(items.begin(), items.end(), [](const Failure& a, const Failure& b) {
    return severity(a.outcome) < severity(b.outcome);
  });
  return items;
}

std::string advice_text(const Failure& failure) {
  std::string text = failure.next.empty() ? "" : "\n   Next: " + failure.next + "\n";
  if (failure.command.empty()) return text;
  std::string block = code_block(failure.command, "sh");
  for (std::size_t at = 0; (at = block.find('\n', at)) + 1 < block.size(); ++at) {
    block.insert(at + 1, "   ");
  }
  return text + "\n   " + block + "\n";
}

std::string failures_text(const ReportView& view) {
  const std::vector<Failure> items = failures(view);
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), kMostItems); ++i) {
    const Failure& item = items[i];
    text += std::to_string(i + 1) + ". " + outcome_text(item.outcome) + " " + item.what + "\n";
    if (i < kMostCommands) text += advice_text(item);
  }
  if (items.size() > kMostItems) {
    text += "\nand " + std::to_string(items.size() - kMostItems) +
            " more causes: see Critical findings and Results.\n";
  }
  return text.empty() || text.ends_with("\n\n") ? text : text + "\n";
}

}  // namespace reports
