#include "harness/evidence/paired_steps.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace harness {
namespace {

using Reductions = std::map<std::int64_t, std::int64_t>;  // up to the end of a step, by step
using Numbers = std::map<std::int64_t, std::int64_t>;     // of a rank's step, the one that it gets

// A step in which this rank made no reduction keeps its place: that it made none is a finding.
Numbers numbers_of(const Reductions& own, const Reductions& longest) {
  Numbers numbers;
  std::int64_t last = 0;
  for (const auto& [step, reductions] : own) {
    auto at = longest.upper_bound(last);
    while (at != longest.end() && at->second < reductions && std::next(at) != longest.end()) ++at;
    last = at == longest.end() ? last + 1 : at->first;
    numbers[step] = last;
  }
  return numbers;
}

// Steps that did not end are counted on from the last one that did.
std::int64_t renumbered(const Numbers& numbers, std::int64_t step) {
  if (numbers.empty() || step < 1) return step;
  const auto at = numbers.lower_bound(step);
  if (at != numbers.end()) return at->second;
  const auto& [last, number] = *numbers.rbegin();
  return number + step - last;
}

template <typename Row>
void renumber(const std::map<int, Numbers>& of_ranks, Rows<Row>& rows) {
  for (From<Row>& from : rows) {
    const auto numbers = of_ranks.find(from.process);
    if (numbers != of_ranks.end()) from.row.step = renumbered(numbers->second, from.row.step);
  }
}

}  // namespace

Evidence with_paired_steps(Evidence evidence) {
  std::map<int, Reductions> of_ranks;
  for (const From<StepDigest>& from : evidence.digests) {
    if (from.process >= 0) of_ranks[from.process][from.row.step] = from.row.reductions;
  }
  const Reductions* longest = nullptr;
  for (const auto& [rank, reductions] : of_ranks) {
    if (longest == nullptr || reductions.size() > longest->size()) longest = &reductions;
  }
  if (of_ranks.size() < 2 || longest->rbegin()->second == 0) return evidence;
  std::map<int, Numbers> numbers;
  for (const auto& [rank, reductions] : of_ranks) {
    Numbers own = numbers_of(reductions, *longest);
    const bool same = std::all_of(
        own.begin(), own.end(), [](const auto& pair) { return pair.first == pair.second; });
    if (!same) numbers.emplace(rank, std::move(own));
  }
  if (numbers.empty()) return evidence;
  renumber(numbers, evidence.phases);
  renumber(numbers, evidence.heartbeats);
  renumber(numbers, evidence.samples);
  renumber(numbers, evidence.gradients);
  renumber(numbers, evidence.buckets);
  renumber(numbers, evidence.collectives);
  renumber(numbers, evidence.digests);
  renumber(numbers, evidence.tensor_digests);
  renumber(numbers, evidence.parameters);
  renumber(numbers, evidence.batches);
  renumber(numbers, evidence.errors);
  return evidence;
}

}  // namespace harness
