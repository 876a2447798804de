// Does the record contradict itself? A worker writes many facts twice: as a row and as a tensor, as a count and as what was
// counted, as a time and as the rows around it. Where the two differ the recorder is wrong, and no finding about the model counts.
// Only relations are asked that hold by construction, whatever the model, its faults and its ranks do (relations.h).
#pragma once

#include <string>
#include <vector>

#include "harness/evidence/evidence.h"

namespace harness {

struct Contradiction {
  std::string relation;  // that does not hold: "hash of a gradient / tensor"
  std::string sentence;  // names both places

  explicit operator bool() const { return !sentence.empty(); }
};

// The first one; none where nothing contradicts anything, or where there is nothing to compare.
[[nodiscard]] Contradiction contradiction_in(const Evidence& evidence);

// The names of all relations, in the order in which they are asked.
[[nodiscard]] std::vector<std::string> audited_relations();

}  // namespace harness
