#include "harness/checks/digests.h"

#include <algorithm>
#include <set>

namespace harness::checks {

bool may_differ(const Evidence& evidence) {
  return std::any_of(evidence.facts.begin(), evidence.facts.end(), [](const auto& fact) {
    return fact.process >= 0 && fact.row.name == kNotJoinedFact;
  });
}

Digests::Digests(const Evidence& evidence) : evidence_(evidence) {
  for (const auto& from : evidence.digests) {
    if (from.process >= 0) steps_[from.row.step][from.process] = &from.row;
  }
}

std::map<std::string, std::map<int, Held>> Digests::held(std::int64_t step,
                                                         const TensorClass& of) const {
  std::map<std::string, std::map<int, Held>> pieces;
  const auto at = steps_.find(step);
  if (at == steps_.end()) return pieces;
  for (const auto& [rank, digest] : at->second) {
    const std::string hash = digest_of(*digest, of);
    // A class without a digest is empty, or cannot be read: what cannot be judged the rank says itself.
    if (!hash.empty()) pieces[digest->piece][rank] = Held::hash(hash);
  }
  return pieces;
}

void Digests::name_tensors(std::int64_t step, const TensorClass& of, Departure& seen) const {
  std::set<std::string> names;
  std::map<std::string, std::set<std::string>> values;
  for (const auto& from : evidence_.tensor_digests) {
    const TensorDigest& row = from.row;
    if (row.step != step || row.of != of.name) continue;
    values[row.tensor].insert(row.fingerprint + row.state);
    seen.facts["differing"] = row.odd;
    seen.facts["total"] = row.all;
  }
  for (const auto& [name, found] : values) {
    if (found.size() > 1) names.insert(name);
  }
  const std::vector<std::string> list(names.begin(), names.end());
  if (list.empty()) return;
  seen.facts.put_some("params", list);
  if (list.size() == 1) seen.site = site_of_params(list);
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
