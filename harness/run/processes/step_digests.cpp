#include "harness/run/processes/step_digests.h"

#include <optional>

#include "harness/evidence/step_ring.h"
#include "harness/evidence/tensor_classes.h"

namespace harness {
namespace {

constexpr std::size_t kMostTensors = 32;  // of a class and rank that are recorded
constexpr std::size_t kMostOpen = 256;    // steps that one rank is ahead of another

}  // namespace

std::vector<std::pair<int, TensorDigest>> StepDigests::heard(const Event& event) {
  std::vector<std::pair<int, TensorDigest>> more;
  if (event.kind != StepDigest::kKind) return more;
  const auto digest = event.body.get<StepDigest>();
  const int rank = event.process;
  for (const TensorClass& one : kTensorClasses) {
    if (digest.not_finite.find(one.letter) == std::string::npos) continue;
    if (!not_finite_.emplace(rank, one.name).second) continue;
    const auto tensors = read_ring(path_of(rank), digest.step, one.name);
    if (!tensors) continue;
    std::vector<TensorDigest> odd;
    for (const auto& [name, row] : *tensors) {
      if (row.state == "nan" || row.state == "inf") odd.push_back(row);
    }
    for (std::size_t i = 0; i < odd.size() && i < kMostTensors; ++i) {
      odd[i].odd = static_cast<std::int64_t>(odd.size());
      odd[i].all = static_cast<std::int64_t>(tensors->size());
      more.emplace_back(rank, odd[i]);
    }
  }
  const Key key = {digest.reductions, digest.reductions > 0 ? 0 : digest.step};
  std::map<int, StepDigest>& of_ranks = open_[key];
  of_ranks[rank] = digest;
  if (of_ranks.size() > 1) compare(key, of_ranks, more);
  if (open_.size() > kMostOpen) open_.erase(open_.begin());
  return more;
}

std::string StepDigests::path_of(int rank) const {
  return ring_path(folder_, rank);
}

void StepDigests::compare(const Key& key,
                          const std::map<int, StepDigest>& of_ranks,
                          std::vector<std::pair<int, TensorDigest>>& more) {
  for (const TensorClass& one : kTensorClasses) {
    // Of the step that is known already, a rank that comes later is recorded too.
    const auto known = differed_.find(one.name);
    if (known != differed_.end() && known->second < key) continue;
    std::map<std::string, std::map<std::string, std::set<int>>> pieces;  // piece -> digest -> ranks
    for (const auto& [rank, digest] : of_ranks) {
      if (const std::string hash = digest_of(digest, one); !hash.empty())
        pieces[digest.*one.piece][hash].insert(rank);
    }
    for (const auto& [piece, hashes] : pieces) {
      if (hashes.size() < 2) continue;
      differed_[one.name] = key;
      std::map<int, std::map<std::string, TensorDigest>> rows;
      for (const auto& [hash, ranks] : hashes) {
        for (const int rank : ranks) {
          auto tensors = read_ring(path_of(rank), of_ranks.at(rank).step, one.name);
          if (tensors) rows[rank] = std::move(*tensors);
        }
      }
      if (rows.size() < 2) continue;
      std::vector<std::string> odd;
      for (const auto& [name, row] : rows.begin()->second) {
        std::set<std::string> found;
        for (const auto& [rank, tensors] : rows) {
          const auto at = tensors.find(name);
          found.insert(at == tensors.end() ? "" : at->second.fingerprint + at->second.state);
        }
        if (found.size() > 1) odd.push_back(name);
      }
      const std::size_t all = rows.begin()->second.size();
      for (auto& [rank, tensors] : rows) {
        for (std::size_t i = 0; i < odd.size() && i < kMostTensors; ++i) {
          TensorDigest row = tensors[odd[i]];
          row.odd = static_cast<std::int64_t>(odd.size());
          row.all = static_cast<std::int64_t>(all);
          more.emplace_back(rank, std::move(row));
        }
      }
    }
  }
}

}  // namespace harness
