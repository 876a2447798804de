#include "harness/judge/not_judged.h"

#include <algorithm>
#include <string_view>

#include "harness/judge/codes/codes.h"

namespace harness {
namespace {

bool meet(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(
      a.begin(), a.end(), [&](int one) { return std::find(b.begin(), b.end(), one) != b.end(); });
}

// A rank of a case that was ended records no more, whichever rank stood still.
bool ends_ranks(const Finding& finding, const Site& wanted) {
  const std::string_view code = finding.code;
  const bool still = code == "SLOW.HOST" || code == "SLOW.COMPILE";
  if (still || code.substr(0, 5) == "HANG.") return !wanted.ranks.empty();
  const Code* known = find_code(code);
  const bool ends =
      known != nullptr && (known->family == Family::process || code == "ROUTE.REFUSED");
  return ends && meet(finding.site.ranks, wanted.ranks);
}

bool spoils_layer(const Finding& finding, const Site& wanted) {
  const Code* known = find_code(finding.code);
  return known != nullptr && known->family == Family::forward &&
         meet(finding.site.layers, wanted.layers) && meet(finding.site.ranks, wanted.ranks);
}

// Decoding is compared with the whole sequence up to the first layer that differs: later ones are made of its output.
bool spoils_later_layer(const Finding& finding, const NotJudged& lacking) {
  const auto& first = finding.site.layers;
  const auto& later = lacking.site.layers;
  return finding.code == "DECODE.MISMATCH" && finding.check == lacking.check && !first.empty() &&
         meet(finding.site.ranks, lacking.site.ranks) &&
         *std::max_element(first.begin(), first.end()) <
             *std::min_element(later.begin(), later.end());
}

Finding* reason_for(const NotJudged& lacking, std::vector<Finding>& findings) {
  Finding* first = nullptr;
  for (Finding& finding : findings) {
    if (finding.role == Role::teardown) continue;
    const bool explains = lacking.site.layers.empty() ? ends_ranks(finding, lacking.site)
                                                      : spoils_layer(finding, lacking.site) ||
                                                            spoils_later_layer(finding, lacking);
    if (explains && (first == nullptr || finding.number < first->number)) first = &finding;
  }
  return first;
}

}  // namespace

void tell_not_judged(std::span<const NotJudged> lacking, std::vector<Finding>& findings) {
  for (const NotJudged& one : lacking) {
    if (Finding* reason = reason_for(one, findings)) reason->not_judged.push_back(one);
  }
}

}  // namespace harness
