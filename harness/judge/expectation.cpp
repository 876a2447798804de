#include "harness/judge/expectation.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "nsa/base/text.h"

namespace harness {
namespace {

std::vector<int> sorted(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

bool same_set(const std::vector<int>& wanted, const std::vector<int>& seen) {
  return wanted.empty() || sorted(wanted) == sorted(seen);
}

bool contained(const std::vector<int>& wanted, const std::vector<int>& seen) {
  const std::vector<int> all = sorted(seen);
  const std::vector<int> some = sorted(wanted);
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

bool same_text(const std::string& wanted, const std::string& seen) {
  return wanted.empty() || wanted == seen;
}

template <typename T>
bool same_value(const std::optional<T>& wanted, const std::optional<T>& seen) {
  return !wanted || wanted == seen;
}

// A measured factor carries rounding; a thousandth is far above it and far below any factor worth expecting.
bool same_number(double wanted, double seen) {
  return std::abs(wanted - seen) <= 1e-3 * std::abs(wanted);
}

bool detail_contains(const nlohmann::json& wanted, const nlohmann::json& seen) {
  if (!wanted.is_object()) return true;
  for (const auto& [key, value] : wanted.items()) {
    const auto found = seen.is_object() ? seen.find(key) : seen.end();
    if (!seen.is_object() || found == seen.end()) return false;
    const bool numbers = value.is_number() && found->is_number();
    const bool equal =
        numbers ? same_number(value.get<double>(), found->get<double>()) : value == *found;
    if (!equal) return false;
  }
  return true;
}

}  // namespace

bool code_matches(const std::string& wanted, std::string_view seen) {
  std::string_view rest = wanted;
  while (true) {
    const std::size_t at = rest.find(" or ");
    if (rest.substr(0, at) == seen) return true;
    if (at == std::string_view::npos) return false;
    rest.remove_prefix(at + 4);
  }
}

bool site_matches(const Site& wanted, const Site& seen) {
  return same_set(wanted.layers, seen.layers) && same_set(wanted.heads, seen.heads) &&
         same_set(wanted.ranks, seen.ranks) && contained(wanted.rows, seen.rows) &&
         same_text(wanted.branch, seen.branch) && same_text(wanted.param, seen.param) &&
         same_text(wanted.op, seen.op) && same_text(wanted.phase, seen.phase) &&
         same_value(wanted.step, seen.step) && same_value(wanted.bucket, seen.bucket) &&
         same_value(wanted.sequence, seen.sequence) && detail_contains(wanted.detail.json(), seen.detail.json());
}

bool has_initiating(const std::string& wanted, const Judgement& seen) {
  return std::any_of(seen.findings.begin(), seen.findings.end(), [&](const Finding& finding) {
    return finding.role == Role::initiating && code_matches(wanted, finding.code);
  });
}

std::string expectation_missed(const Expectation& wanted, const Judgement& seen) {
  const bool anywhere = wanted.code.empty() && wanted.site == Site{};
  const bool found =
      anywhere ||
      std::any_of(seen.findings.begin(), seen.findings.end(), [&](const Finding& finding) {
        const bool code_met = wanted.code.empty() || code_matches(wanted.code, finding.code);
        return finding.role == Role::initiating && code_met &&
               site_matches(wanted.site, finding.site);
      });
  const bool outcome_met = !wanted.outcome || *wanted.outcome == seen.outcome;
  if (outcome_met && found) return "";
  std::string text = "expected";
  if (wanted.outcome) text += std::string(" ") + name_of(*wanted.outcome);
  const std::string place = title_of(wanted.code, wanted.site);
  if (!place.empty()) text += " " + place;
  text += ", saw " + std::string(name_of(seen.outcome));
  std::vector<std::string> causes;
  for (const Finding& finding : seen.findings) {
    if (finding.role == Role::initiating) causes.push_back(title_of(finding.code, finding.site));
  }
  if (!causes.empty()) return text + " " + nsa::join(causes, "; ");
  return text + (seen.reason.empty() ? "" : " (" + seen.reason + ")");
}

}  // namespace harness
