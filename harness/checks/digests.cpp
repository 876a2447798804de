#include "harness/checks/digests.h"

#include <utility>

#include "harness/checks/course.h"
#include "harness/checks/parameter_names.h"

namespace harness::checks {

void report_differing(const Evidence& evidence, Finding finding, ResultBuilder& result) {
  if (!any_rank_reports(evidence, kNotJoinedFact)) {
    result.found(std::move(finding));
    return;
  }
  result.missing(
      "whether ranks are to hold the same, as they do not: neither DistributedDataParallel nor "
      "fully_shard joins them");
}

Digests::Digests(const Evidence& evidence) : evidence_(evidence) {
  for (const auto& from : evidence.digests) {
    if (from.process >= 0) steps_[from.row.step][from.process] = &from.row;
  }
}

std::int64_t Digests::folded() const {
  std::int64_t steps = 0;
  for (const auto& from : evidence_.stretches) steps += from.row.steps();
  return steps;
}

std::map<std::string, std::map<int, Held>> Digests::held(std::int64_t step,
                                                         const TensorClass& of) const {
  std::map<std::string, std::map<int, Held>> pieces;
  const auto at = steps_.find(step);
  if (at == steps_.end()) return pieces;
  for (const auto& [rank, digest] : at->second) {
    const std::string hash = digest_of(*digest, of);
    // A class without a digest is empty, or cannot be read: what cannot be judged the rank says itself.
    if (!hash.empty()) pieces[digest->*of.piece][rank] = Held::hash(hash);
  }
  return pieces;
}

std::set<std::int64_t> Digests::steps_and(const std::set<std::int64_t>& recorded) const {
  std::set<std::int64_t> all = recorded;
  for (const auto& [step, of_ranks] : steps_) all.insert(step);
  return all;
}

Said Digests::said(std::int64_t step, const TensorClass& of) const {
  Said all = Said::unread;
  for (const auto& [piece, of_rank] : held(step, of)) {
    const Said one = agree(of_rank).said;
    if (one == Said::differ) return one;
    all = all == Said::unread || all == one ? one : Said::alone;
  }
  return all;
}

void Digests::name_tensors(std::int64_t step, const TensorClass& of, Departure& seen) const {
  std::map<std::string, std::set<std::string>> values;
  for (const auto& from : evidence_.tensor_digests) {
    const TensorDigest& row = from.row;
    if (row.step != step || row.of != of.name) continue;
    values[row.tensor].insert(row.fingerprint + row.state);
    seen.facts["differing"] = row.odd;
    seen.facts["total"] = row.all;
  }
  std::vector<std::string> names;
  for (const auto& [name, found] : values) {
    if (found.size() > 1) names.push_back(name);
  }
  if (names.empty()) return;
  seen.facts.put_some("params", names);
  if (names.size() == 1) seen.site = site_of_params(names);
}

std::vector<std::pair<std::string, std::string>> Digests::not_finite(std::int64_t step,
                                                                     const TensorClass& of,
                                                                     int rank) const {
  std::map<std::string, std::string> names;
  for (const auto& from : evidence_.tensor_digests) {
    const TensorDigest& row = from.row;
    if (from.process == rank && row.step == step && row.of == of.name &&
        (row.state == "nan" || row.state == "inf"))
      names[row.tensor] = row.state;
  }
  return {names.begin(), names.end()};
}

std::vector<int> holders(const std::map<int, Held>& of_rank) {
  std::vector<int> ranks;
  for (const auto& [rank, held] : of_rank) ranks.push_back(rank);
  return ranks;
}

}  // namespace harness::checks
