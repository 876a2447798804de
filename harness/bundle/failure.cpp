#include "harness/bundle/failure.h"

#include <algorithm>

namespace harness {
namespace {

bool has_like(const std::vector<Cause>& causes, const Cause& wanted) {
  return std::any_of(
      causes.begin(), causes.end(), [&](const Cause& one) { return is_alike(one, wanted); });
}

std::vector<std::string> titles_without(const std::vector<Cause>& causes,
                                        const std::vector<Cause>& others) {
  std::vector<std::string> titles;
  for (const Cause& one : causes) {
    if (!has_like(others, one)) titles.push_back(one.title());
  }
  return titles;
}

}  // namespace

std::string Cause::title() const {
  return title_of(code, site);
}

std::vector<Cause> causes_of(const Judgement& judgement) {
  std::vector<Cause> causes;
  for (const Finding& finding : judgement.findings) {
    if (finding.role != Role::initiating) continue;
    causes.push_back({finding.code, finding.site, finding.statement});
  }
  return causes;
}

bool is_alike(const Cause& a, const Cause& b) {
  // Where a rank is when its time is over is chance.
  if (a.code == "SLOW.HOST" && b.code == a.code) return true;
  return a.code == b.code && a.site.branch == b.site.branch && a.site.param == b.site.param &&
         a.site.op == b.site.op && a.site.phase == b.site.phase &&
         a.site.layers.empty() == b.site.layers.empty() &&
         a.site.ranks.empty() == b.site.ranks.empty();
}

Comparison compare_causes(const std::vector<Cause>& expected, const std::vector<Cause>& seen) {
  Comparison comparison;
  comparison.also = titles_without(seen, expected);
  comparison.missing = titles_without(expected, seen);
  if (seen.empty()) return comparison;
  const Cause& first = expected.front();
  comparison.result = has_like(seen, first) ? Replayed::same : Replayed::another;
  comparison.same_place = std::any_of(
      seen.begin(), seen.end(), [&](const Cause& one) { return one.site == first.site; });
  return comparison;
}

bool fails_alike(const std::vector<Cause>& expected, const std::vector<Cause>& seen) {
  if (expected.empty() || seen.empty() || !is_alike(expected.front(), seen.front())) return false;
  return std::all_of(seen.begin(), seen.end(), [&](const Cause& one) {
    return std::any_of(expected.begin(), expected.end(), [&](const Cause& known) {
      return known.code == one.code;
    });
  });
}

}  // namespace harness
