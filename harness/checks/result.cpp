#include "harness/checks/result.h"

#include "nsa/base/text.h"

namespace harness::checks {

void ResultBuilder::missing(const std::string& what, const Site& where) {
  if (std::find(missing_.begin(), missing_.end(), what) != missing_.end()) return;
  missing_.push_back(what);
  not_judged(what, where);
}

void ResultBuilder::not_judged(const std::string& what, const Site& where) {
  result_.not_judged.push_back({"", what, where});
}

CheckResult ResultBuilder::finish(const std::string& why_pass) {
  constexpr std::size_t kMostNamed = 6;  // a reason is one line
  std::vector<std::string> named(
      missing_.begin(),
      missing_.begin() + static_cast<std::ptrdiff_t>(std::min(missing_.size(), kMostNamed)));
  std::string lacking = nsa::join(named, "; ");
  if (missing_.size() > kMostNamed) {
    lacking += "; and " + std::to_string(missing_.size() - kMostNamed) + " more";
  }
  const std::size_t count = result_.findings.size();
  const bool failed = std::any_of(result_.findings.begin(),
                                  result_.findings.end(),
                                  [](const Finding& f) { return f.role != Role::teardown; });
  if (failed) {
    result_.verdict = Verdict::fail;
    result_.reason = result_.findings.front().statement;
    if (count > 1) result_.reason += " (and " + std::to_string(count - 1) + " more findings)";
    if (!lacking.empty()) result_.reason += " Not judged: " + lacking;
  } else if (!lacking.empty()) {
    result_.verdict = Verdict::inconclusive;
    result_.reason = lacking;
  } else {
    result_.verdict = Verdict::pass;
    result_.reason = why_pass;
  }
  return result_;
}

CheckResult inconclusive(std::string reason) {
  CheckResult result;
  result.reason = std::move(reason);
  return result;
}

Finding make_finding(std::string code, std::string variant) {
  Finding finding;
  finding.code = std::move(code);
  finding.variant = std::move(variant);
  return finding;
}

Site site_of_rank(int rank) {
  Site site;
  if (rank >= 0) site.ranks = {rank};
  return site;
}

Site site_of_layer(int rank, int layer) {
  Site site = site_of_rank(rank);
  site.layers = {layer};
  return site;
}

std::vector<int> all_ranks(const Evidence& evidence) {
  std::vector<int> ranks;
  for (int rank = 0; rank < evidence.ranks(); ++rank) ranks.push_back(rank);
  return ranks;
}

std::vector<int> to_ints(const std::set<int>& values) {
  return {values.begin(), values.end()};
}

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.empty()) return "no rank";
  if (ranks.front() < 0) return "the " + process_name(ranks.front());  // it is no rank
  return (ranks.size() == 1 ? "rank " : "ranks ") + nsa::ranges_text(ranks);
}

std::string counted(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string ended_early(const Evidence& evidence, int process) {
  return evidence.finished(process) ? "" : " (" + process_name(process) + " did not finish its work)";
}

}  // namespace harness::checks
