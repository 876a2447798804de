// The lines of cases as they end. A night whose time is over skips hundreds of cases for one reason: of the cases that are
// skipped for the same reason, the first one has a line, and the others are counted at the end.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "harness/judge/finding.h"

namespace harness::cli {

class ToldLines {
 public:
  using Print = std::function<void(
      Outcome outcome, const std::string& label, double seconds, const std::string& reason)>;

  explicit ToldLines(Print print) : print_(std::move(print)) {}

  void add(Outcome outcome, const std::string& label, double seconds, const std::string& reason);
  // After the last one: what was counted.
  void end();

 private:
  struct Skipped {
    int others = 0;    // beside the first one
    std::string last;  // of them
  };

  Print print_;
  std::map<std::string, Skipped> skipped_;  // by reason
};

}  // namespace harness::cli
