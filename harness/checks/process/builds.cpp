#include <map>

#include "harness/checks/process/machine_parts.h"

namespace harness::checks {
namespace {

// Enough to find the build again.
constexpr std::size_t kDigitsOfSources = 12;

std::string own_sources(const Evidence& evidence) {
  for (const auto& fact : evidence.facts) {
    if (fact.process == kController && fact.row.name == kBuiltFromFact) return fact.row.value;
  }
  return "";
}

}  // namespace

std::string judge_builds(const Evidence& evidence, ResultBuilder& result) {
  // What a user's own program was built from is nothing to compare with.
  if (evidence.the_case.scenario.is_command() || evidence.the_case.scenario.is_foreign()) return "";
  const std::string wanted = own_sources(evidence);
  if (wanted.empty()) {
    result.missing("the sources of the controller");
    return "";
  }
  std::map<int, std::string> sources;  // of ranks and twin
  for (const auto& hello : evidence.hellos) sources[hello.process] = hello.row.source_hash;
  std::map<std::string, std::vector<int>> others;
  for (const int rank : all_ranks(evidence)) {
    const auto at = sources.find(rank);
    if (at == sources.end() || at->second.empty()) {
      result.missing("the sources of " + process_name(rank) + ended_early(evidence, rank),
                     site_of_rank(rank));
    }
  }
  for (const auto& [process, hash] : sources) {
    if (!hash.empty() && hash != wanted) others[hash].push_back(process);
  }
  for (const auto& [hash, processes] : others) {
    Finding finding = make_finding("INFRA.STALE_BUILD", "sources");
    for (const int process : processes) {
      if (process >= 0) finding.site.ranks.push_back(process);
      finding.facts["who"].push_back(process_name(process));
    }
    finding.facts["found"] = hash.substr(0, kDigitsOfSources);
    finding.facts["wanted"] = wanted.substr(0, kDigitsOfSources);
    result.found(std::move(finding));
  }
  return "all processes are of the sources " + wanted.substr(0, kDigitsOfSources);
}

}  // namespace harness::checks
