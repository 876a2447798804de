// The digests that ranks with the two lines send of each step. Where ranks that must hold the same do not, or where a number is not
// finite, the tensors are read from the files in which the ranks keep their last steps, at once: after 64 more steps they are gone.
// The judgement is a check's, from the whole record; this only reads more of it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/evidence/event.h"

namespace harness {

class StepDigests {
 public:
  explicit StepDigests(std::string case_folder) : folder_(std::move(case_folder)) {}

  // A checked event of a rank. Gives what is to be recorded beside it, with the rank whose tensor it is: of each class once, in the
  // first step in which ranks differ, and in the first one in which a number of a rank is not finite. Nothing where the file no
  // longer holds the step or cannot be read.
  [[nodiscard]] std::vector<std::pair<int, TensorDigest>> heard(const Event& event);

 private:
  // The number of reductions, which ranks that take part in each of them count alike; where there are none, the step.
  using Key = std::pair<std::int64_t, std::int64_t>;

  void compare(const Key& key,
               const std::map<int, StepDigest>& of_ranks,
               std::vector<std::pair<int, TensorDigest>>& more);
  [[nodiscard]] std::string path_of(int rank) const;

  std::string folder_;
  std::map<Key, std::map<int, StepDigest>> open_;
  std::map<std::string, Key> differed_;               // by class, where ranks differ first
  std::set<std::pair<int, std::string>> not_finite_;  // by rank
};

}  // namespace harness
