#include "harness/judge/contradicting_verdicts.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace harness {
namespace {

using Denies = bool (*)(const Finding& finding, const Evidence& evidence);

struct ContradictingPair {
  const char* passed;  // the check
  const char* denier;  // whose finding denies what that one passed on
  Denies denies;
  const char* fact;
};

bool is_of_some_ranks(const Finding& finding, const Evidence& evidence) {
  const auto count = static_cast<int>(finding.site.ranks.size());
  return count > 0 && count < evidence.ranks();
}

// Only what logic excludes, not what is unlikely. A finding that holds where a check could not look (not_judged) denies nothing.
constexpr std::array kContradictingPairs = {
    // Ranks with the same hashes are judged as one.
    ContradictingPair{"gradients_agree",
                      "matches_twin",
                      [](const Finding& finding, const Evidence& evidence) {
                        const bool of_sums =
                            finding.variant == "sum" || finding.variant == "values";
                        return of_sums && is_of_some_ranks(finding, evidence);
                      },
                      "every rank holds the same reduced gradients"},
    // Both compare the same hashes, and where these may differ the same tensors with the same bound.
    ContradictingPair{"matches_twin",
                      "checkpoint_equal",
                      [](const Finding& finding, const Evidence& /*evidence*/) {
                        return finding.code == "CKPT.GRADIENT" &&
                               finding.site.detail.contains("gradients_differ_in");
                      },
                      "every local gradient is the twin's"},
    ContradictingPair{"process_clean",
                      "progress",
                      [](const Finding& finding, const Evidence& /*evidence*/) {
                        return finding.code.starts_with("HANG.");
                      },
                      "every process did all that was asked and ended by itself"},
    // Autograd raises it, and an exception ends a rank.
    ContradictingPair{"process_clean",
                      "checkpoint_equal",
                      [](const Finding& finding, const Evidence& /*evidence*/) {
                        return finding.code == "INPLACE.MODIFIED" && finding.variant == "autograd";
                      },
                      "no rank ended with an exception"}};

const CheckResult* verdict_of(std::span<const CheckResult> verdicts, std::string_view check) {
  const auto at = std::find_if(verdicts.begin(), verdicts.end(), [&](const CheckResult& verdict) {
    return verdict.check == check;
  });
  return at == verdicts.end() ? nullptr : &*at;
}

}  // namespace

std::string contradiction_between(std::span<const CheckResult> verdicts, const Evidence& evidence) {
  for (const ContradictingPair& pair : kContradictingPairs) {
    const CheckResult* passed = verdict_of(verdicts, pair.passed);
    const CheckResult* denier = verdict_of(verdicts, pair.denier);
    if (passed == nullptr || passed->verdict != Verdict::pass) continue;
    if (denier == nullptr || !denier->not_judged.empty()) continue;
    for (const Finding& finding : denier->findings) {
      if (!pair.denies(finding, evidence)) continue;
      return passed->check + " passed (" + pair.fact + "), and " + denier->check +
             " denies it: " + title_of(finding.code, finding.site) + " — " + finding.statement;
    }
  }
  return "";
}

}  // namespace harness
