#include "harness/evidence/paired_steps.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace harness {
namespace {

using Reductions = std::map<std::int64_t, std::int64_t>;  // up to the end of a step, by step
using Numbers = std::map<std::int64_t, std::int64_t>;     // of a rank's step, the one that it gets

// How many reductions a step made, by step.
Reductions made_in(const Reductions& so_far) {
  Reductions made;
  std::int64_t before = 0;
  for (const auto& [step, reductions] : so_far) {
    made[step] = reductions - before;
    before = reductions;
  }
  return made;
}

// Of most steps of all ranks.
std::int64_t usual(const std::map<int, Reductions>& made_of) {
  std::map<std::int64_t, std::int64_t> times;
  for (const auto& [rank, made] : made_of) {
    for (const auto& [step, reductions] : made) ++times[reductions];
  }
  const auto most = std::max_element(
      times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->first;
}

// Steps that made another number of reductions.
std::int64_t unusual(const Reductions& made, std::int64_t usual) {
  return std::count_if(
      made.begin(), made.end(), [&](const auto& step) { return step.second != usual; });
}

// A step that made more reductions than usual stands for as many steps of the other rank. One that made none keeps its place: that
// it made none is a finding.
Numbers numbers_of(const Reductions& own, const Reductions& other, std::int64_t usual) {
  Numbers numbers;
  std::int64_t last = 0;
  for (const auto& [step, reductions] : own) {
    ++last;
    auto at = other.find(last);
    std::int64_t covered = at == other.end() ? reductions : at->second;
    while (reductions > usual && covered < reductions && std::next(at) != other.end()) {
      ++at;
      covered += at->second;
    }
    last = at == other.end() ? last : at->first;
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
  // With each reduction in the same step there is nothing to be paired.
  const bool all_same = std::all_of(of_ranks.begin(), of_ranks.end(), [&](const auto& entry) {
    return entry.second == of_ranks.begin()->second;
  });
  // A rank that reduces once more than the others waits for ever in the end, or dies.
  const bool all_well = std::all_of(of_ranks.begin(), of_ranks.end(), [&](const auto& entry) {
    return evidence.finished(entry.first);
  });
  if (of_ranks.size() < 2 || !all_well || all_same) return evidence;
  for (const From<Stretch>& from : evidence.stretches) {
    std::int64_t so_far = from.row.reductions_before;
    for (std::int64_t step = from.row.first; step <= from.row.last; ++step) {
      so_far += from.row.reductions_each;
      for (const Stretch::OfRank& rank : from.row.of_ranks) of_ranks[rank.rank][step] = so_far;
    }
  }
  std::map<int, Reductions> made_of;
  for (const auto& [rank, so_far] : of_ranks) made_of[rank] = made_in(so_far);
  const std::int64_t most_make = usual(made_of);
  using Entry = std::pair<const int, Reductions>;
  const auto oddness = [&](const Entry& entry) {
    return std::tuple(unusual(entry.second, most_make),
                      -static_cast<std::int64_t>(entry.second.size()),
                      entry.first);
  };
  const auto best =
      std::min_element(made_of.begin(), made_of.end(), [&](const Entry& a, const Entry& b) {
        return oddness(a) < oddness(b);
      });
  std::map<int, Numbers> numbers;
  for (const auto& [rank, made] : made_of) {
    Numbers own = numbers_of(made, best->second, most_make);
    if (own.rbegin()->first == own.rbegin()->second) continue;
    numbers.emplace(rank, std::move(own));
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
