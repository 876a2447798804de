#include "reports/sections/change_kind.h"

#include <algorithm>

namespace reports {
namespace {

using harness::Outcome;

std::string first_code(const harness::CaseRecord& record) {
  return record.judgement && !record.judgement->findings.empty()
             ? record.judgement->findings.front().code
             : "";
}

}  // namespace

Change change_of(const CaseView& one) {
  const Outcome now = one.outcome();
  const bool ran = one.record.skip_reason.empty() && one.record.judgement && now != Outcome::skip;
  if (!ran) return Change::not_run;
  if (!harness::is_decided(now)) return Change::undecided;
  if (one.history.empty()) return Change::first;
  const harness::Earlier& before = one.history.front();
  const bool was_good = before.outcome == Outcome::pass;
  if (now == Outcome::pass) return was_good ? Change::same : Change::fixed;
  if (was_good) {
    const bool failed_once =
        std::any_of(one.history.begin(), one.history.end(), [](const harness::Earlier& earlier) {
          return earlier.outcome != Outcome::pass;
        });
    return failed_once ? Change::returned : Change::fresh;
  }
  const bool alike = before.outcome == now && before.code == first_code(one.record);
  return alike ? Change::still : Change::changed;
}

const char* name_of(Change change) {
  switch (change) {
    case Change::same: return "passed again";
    case Change::first: return "first time";
    case Change::fresh: return "new";
    case Change::returned: return "returned";
    case Change::still: return "still failing";
    case Change::changed: return "fails otherwise";
    case Change::fixed: return "fixed";
    case Change::undecided: return "not decided";
    case Change::not_run: return "not run";
  }
  return "";
}

}  // namespace reports
