#include "harness/judge/patterns.h"

#include <algorithm>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

bool fits_code(std::string_view pattern, const Finding& finding) {
  const std::size_t slash = pattern.find('/');
  const std::string_view code = pattern.substr(0, slash);
  if (slash != std::string_view::npos) {
    // "raised" stands for "raised.disk_full" too.
    const std::string_view variant = finding.variant;
    const std::string_view wanted = pattern.substr(slash + 1);
    return finding.code == code &&
           (variant == wanted || variant.substr(0, variant.find('.')) == wanted);
  }
  return std::string_view(finding.code).substr(0, code.size()) == code;
}

bool names_part(const Finding& finding, std::string_view part) {
  const nlohmann::json* parts = finding.site.detail.find("parts");
  if (parts == nullptr) return false;
  return std::any_of(parts->begin(), parts->end(), [&](const nlohmann::json& one) {
    return one.is_string() && one.get_ref<const std::string&>() == part;
  });
}

}  // namespace

std::string law_of(const Site& site) {
  return site.detail.value("law", std::string());
}

bool has_fitted_law(const Site& site) {
  return site.detail.contains("fitted");
}

void put_law(const std::string& law, bool fitted, Site& site) {
  if (law.empty()) return;
  site.detail["law"] = law;
  if (fitted) site.detail["fitted"] = "to the numbers";
}

bool fits(std::string_view pattern, const Finding& finding) {
  const std::size_t both = pattern.find('+');
  if (both != std::string_view::npos) {
    return fits(pattern.substr(0, both), finding) && fits(pattern.substr(both + 1), finding);
  }
  const std::size_t at = pattern.find('@');
  if (at != std::string_view::npos) {
    return finding.site.op == pattern.substr(at + 1) && fits_code(pattern.substr(0, at), finding);
  }
  const std::size_t law = pattern.find('=');
  if (law != std::string_view::npos) {
    return law_of(finding.site) == pattern.substr(law + 1) &&
           fits_code(pattern.substr(0, law), finding);
  }
  const std::size_t other = pattern.rfind('!');
  if (other != std::string_view::npos) {
    return !names_part(finding, pattern.substr(other + 1)) &&
           fits(pattern.substr(0, other), finding);
  }
  const std::size_t part = pattern.find('#');
  if (part != std::string_view::npos) {
    return names_part(finding, pattern.substr(part + 1)) &&
           fits_code(pattern.substr(0, part), finding);
  }
  const Code* code = find_code(finding.code);
  const bool family = !pattern.empty() && pattern[0] >= 'a' && pattern[0] <= 'z';
  if (family) return code != nullptr && pattern == name_of(code->family);
  return fits_code(pattern, finding);
}

}  // namespace harness
