// The gradient of an optimiser step: the mean over its micro-batches and over the ranks
// (docs/data.md), judged from the gradients of every micro-batch of every rank; and the laws that
// name another sum of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/naming.h"
#include "oracles/numbers.h"

namespace oracles {

// One parameter; all tensors flat, of the same number of elements and under the same loss scale.
struct AccumulateRecord {
  std::string name;
  std::int64_t world = 1;
  std::int64_t accumulate = 1;
  std::vector<Numbers>
      parts;       // [world, accumulate]: of each micro-batch of each rank, its own mean
  Numbers before;  // what the gradient held when the step began; empty: unknown
  Numbers result;  // after the last reduction
  Number number = Number::f32;  // type in which gradients are kept and summed
};

// All elements. With K parts, u the unit roundoff and f the smallest normal number of the type, a sum
// in any order, divided at any place, is off by at most (K + 3) u sum|part| / K + f: each part meets
// at most K - 1 additions, two divisions, and is rounded when it is stored. Where sum|part| is beyond
// the type, a sum that divides last may overflow: a result that is not finite is right there too. Where
// a part is NaN, or parts are infinite in both directions, NaN is right and nothing else.
// Throws std::invalid_argument that names the parameter where sizes do not fit.
Misfit judge_accumulated(const AccumulateRecord& record, int threads = 0);

std::span<const Law> accumulate_laws();

// The sum under a law, in float64. `which` is the micro-batch or the rank that the law is about,
// where it is about one. None where the law has no meaning. Throws std::invalid_argument for an
// unknown name.
std::optional<std::vector<double>> accumulated_under(std::string_view law,
                                                     const AccumulateRecord& record,
                                                     std::int64_t which = 0);

// Laws are tried on all elements of the records that are wrong.
Naming name_accumulated(std::span<const AccumulateRecord> records, int threads = 0);

}  // namespace oracles
