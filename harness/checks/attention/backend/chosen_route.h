// The route that a process was to run: what the scenario asks for, and in the place of `auto` what the process recorded that it
// took. That it ran is judged by ran_route.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/evidence/evidence.h"

namespace harness::checks {

inline constexpr const char* kAutomatic = "auto";  // as a route asks for it

class ChosenRoute {
 public:
  ChosenRoute(const Evidence& evidence, int process);

  // `auto` stays where nothing was recorded of it.
  [[nodiscard]] const std::map<std::string, std::string>& route() const { return route_; }
  [[nodiscard]] bool is_automatic(const std::string& seam) const;
  // Of a seam that asked for `auto`: "cuda", or "reference and passed over cuda (device cpu: ...)".
  [[nodiscard]] std::string taken(const std::string& seam) const;

 private:
  struct Choice {
    std::string taken;
    std::string passed_over;  // "cuda (device cpu: ...), fused (...)"
  };
  std::map<std::string, std::string> route_;
  std::map<std::string, Choice> choices_;
};

}  // namespace harness::checks
