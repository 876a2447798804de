#include "harness/cli/explain/lines.h"

#include <algorithm>

#include "harness/cli/output.h"

namespace harness::cli {
namespace {

constexpr std::size_t kLeft = 21;  // two spaces, the longest code, two spaces
constexpr std::size_t kWidth = 100;

}  // namespace

void Lines::add(const std::string& name, std::string_view text) {
  std::string line = "  " + name;
  line.resize(std::max(kLeft, line.size() + 2), ' ');
  const std::string clean = without_controls(std::string(text));
  for (std::size_t at = 0; at < clean.size();) {
    const std::size_t end = std::min(clean.find(' ', at), clean.size());
    const bool first = line.back() == ' ';
    if (!first && line.size() + 1 + end - at > kWidth) {
      text_ += line + "\n";
      line.assign(kLeft, ' ');
    } else if (!first) {
      line += ' ';
    }
    line += clean.substr(at, end - at);
    at = end + 1;
  }
  text_ += line + "\n";
}

}  // namespace harness::cli
