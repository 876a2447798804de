#include "harness/cli/running/retention.h"

#include <ostream>

#include "harness/cli/output.h"
#include "harness/run/clock.h"
#include "harness/store/prune.h"
#include "nsa/base/error.h"
#include "nsa/base/text.h"

namespace harness::cli {

std::int64_t days_in_ms(const std::string& option, const std::string& text) {
  const auto days = text.size() > 1 && text.back() == 'd'
                        ? nsa::parse_int(text.substr(0, text.size() - 1))
                        : std::nullopt;
  constexpr std::int64_t kMostDays = 36'500;
  constexpr std::int64_t kDayMs = std::int64_t{24} * 3'600'000;
  if (!days || *days < 1 || *days > kMostDays) {
    throw nsa::Error(option + ": found \"" + text + "\", wanted a number of days like 90d");
  }
  return *days * kDayMs;
}

void prune_and_tell(Store& store, const Retention& retention, std::ostream& out) {
  PruneRule rule;
  rule.now_ms = wall_clock_ms();
  rule.before_ms = rule.now_ms - retention.keep_ms;
  rule.runs_with_files = retention.with_tensors;
  rule.verb = retention.verb;
  const Pruned pruned = prune_runs(store, rule);
  for (const std::string& name : pruned.dropped) {
    out << "dropped the folder of " << name << "; its rows stay\n";
  }
  for (const std::string& name : pruned.thinned) {
    out << "dropped the tensors of " << name << "; its log and verdicts stay\n";
  }
  for (const std::string& line : pruned.left) log_line("kept " + line);
  out << megabytes(pruned.freed_bytes) << " freed\n";
}

}  // namespace harness::cli
