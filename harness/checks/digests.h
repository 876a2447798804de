// The digests that ranks of a training of the user's own send of every step, for the checks that compare whole tensors where these
// were recorded: in the other steps a class of tensors is compared as a whole, and the tensors that differ were read once
// (TensorDigest).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/checks/agreement.h"
#include "harness/checks/departures.h"
#include "harness/evidence/evidence.h"
#include "harness/evidence/tensor_classes.h"

namespace harness::checks {

// Ranks do not hold the same. If nothing joins them (kNotJoinedFact), this may be meant: then it is missing what they should hold.
void report_differing(const Evidence& evidence, Finding finding, ResultBuilder& result);

class Digests {
 public:
  explicit Digests(const Evidence& evidence);

  [[nodiscard]] bool empty() const { return steps_.empty(); }
  // How many steps, compared before and equal, stand in the record as a Stretch alone.
  [[nodiscard]] std::int64_t folded() const;
  using OfRanks = std::map<int, const StepDigest*>;
  [[nodiscard]] const std::map<std::int64_t, OfRanks>& steps() const { return steps_; }
  // The steps that ranks sent a digest of, and `recorded` ones.
  [[nodiscard]] std::set<std::int64_t> steps_and(const std::set<std::int64_t>& recorded) const;

  // What each rank holds of a class after a step, by piece. Of a rank without a digest of this step there is nothing.
  [[nodiscard]] std::map<std::string, std::map<int, Held>> held(std::int64_t step,
                                                                const TensorClass& of) const;

  // Of all pieces together: differ if one does, equal if each is, unread if no rank has a digest.
  [[nodiscard]] Said said(std::int64_t step, const TensorClass& of) const;

  // The class departs in this step. Adds to `seen` how many tensors do, which, and the parameter if it is one, as far as they were
  // read.
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
