#include "harness/cli/running/told_lines.h"

namespace harness::cli {

void ToldLines::add(Outcome outcome,
                    const std::string& label,
                    double seconds,
                    const std::string& reason) {
  if (outcome == Outcome::skip) {
    const auto [skipped, is_first] = skipped_.try_emplace(reason);
    if (!is_first) {
      ++skipped->second.others;
      skipped->second.last = label;
      return;
    }
  }
  print_(outcome, label, seconds, reason);
}

void ToldLines::end() {
  for (const auto& [reason, skipped] : skipped_) {
    if (skipped.others == 1) print_(Outcome::skip, skipped.last, 0, reason);
    if (skipped.others > 1) {
      print_(Outcome::skip, "and " + std::to_string(skipped.others) + " more cases", 0, reason);
    }
  }
  skipped_.clear();
}

}  // namespace harness::cli
