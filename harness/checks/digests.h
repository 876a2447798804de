// The digests that ranks of a training of the user's own send of every step, for the checks that compare whole tensors where these
// were recorded: in the other steps a class of tensors is compared as a whole, and the tensors that differ were read once
// (TensorDigest).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/checks/agreement.h"
#include "harness/checks/departures.h"
#include "harness/evidence/evidence.h"
#include "harness/evidence/tensor_classes.h"

namespace harness::checks {

// A fact of a rank with the two lines: neither DistributedDataParallel nor fully_shard joins the ranks. The script may do so
// itself.
inline constexpr const char* kNotJoinedFact = "not_joined";

// Nothing says that ranks must hold the same. If they do, well; if they differ, it may be meant.
[[nodiscard]] bool may_differ(const Evidence& evidence);
inline constexpr const char* kMayDiffer =
    "whether ranks are to hold the same, as they do not: neither DistributedDataParallel nor "
    "fully_shard joins them";

class Digests {
 public:
  explicit Digests(const Evidence& evidence);

  [[nodiscard]] bool empty() const { return steps_.empty(); }
  using OfRanks = std::map<int, const StepDigest*>;
  [[nodiscard]] const std::map<std::int64_t, OfRanks>& steps() const { return steps_; }

  // What each rank holds of a class after a step, by piece. Of a rank without a digest of this step there is nothing.
  [[nodiscard]] std::map<std::string, std::map<int, Held>> held(std::int64_t step,
                                                                const TensorClass& of) const;

  // The class departs in this step on these ranks: the place, how many tensors do, and which, as far as they were read.
  // `total`: how many there are where they were not read; 0: not known.
  void name_tensors(std::int64_t step, const TensorClass& of, Departure& seen) const;
  // Names of the tensors that were read of one rank and are not finite, with their state.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> not_finite(std::int64_t step,
                                                                            const TensorClass& of,
                                                                            int rank) const;

 private:
  const Evidence& evidence_;
  std::map<std::int64_t, OfRanks> steps_;
};

[[nodiscard]] std::vector<int> holders(const std::map<int, Held>& of_rank);

}  // namespace harness::checks
