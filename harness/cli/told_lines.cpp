#include "harness/cli/told_lines.h"

namespace harness::cli {

void ToldLines::add(Outcome outcome,
                    const std::string& label,
                    double seconds,
                    const std::string& reason) {
  if (outcome == Outcome::skip && !reason.empty() && reason == reason_) {
    ++counted_;
    label_ = label;
    return;
  }
  end();
  print_(outcome, label, seconds, reason);
  if (outcome == Outcome::skip) reason_ = reason;
}

void ToldLines::end() {
  if (counted_ == 1) print_(Outcome::skip, label_, 0, reason_);
  if (counted_ > 1) {
    print_(Outcome::skip, "and " + std::to_string(counted_) + " more cases", 0, reason_);
  }
  counted_ = 0;
  reason_.clear();
}

}  // namespace harness::cli
