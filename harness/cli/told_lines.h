// The lines of cases as they end. A night whose time is over skips hundreds of cases at once for one reason: of cases that are
// skipped one after the other for the same reason, the first one has a line and the others are counted in the next.
#pragma once

#include <functional>
#include <string>

#include "harness/judge/finding.h"

namespace harness::cli {

class ToldLines {
 public:
  using Print = std::function<void(
      Outcome outcome, const std::string& label, double seconds, const std::string& reason)>;

  explicit ToldLines(Print print) : print_(std::move(print)) {}

  void add(Outcome outcome, const std::string& label, double seconds, const std::string& reason);
  // After the last one: what was counted and has no line yet.
  void end();

 private:
  Print print_;
  std::string reason_;  // of the cases skipped last, "" where another outcome came last
  std::string label_;   // of the last one that was counted
  int counted_ = 0;
};

}  // namespace harness::cli
