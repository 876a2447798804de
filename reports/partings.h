// Where two trainings of the user's own part: the first step in which they do not compute the same, and what differs there
// first, in the order of a step. Told and not judged, as result_differences.h. Two launches of one program on one machine part
// where something of them is not determined, such as an atomic sum or a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/evidence/evidence.h"

namespace reports {

struct Parting {
  std::string label;
  std::int64_t steps = 0;  // that both runs told
  // The first one that differs. Nothing: all are the same.
  std::optional<std::int64_t> step;
  std::string what;               // that differs in it first: "the loss", "reduced gradients"
  std::vector<std::string> same;  // what comes before it in a step, and was compared there
  std::vector<int> ranks;         // on which it does
  // After this one both held the same parameters; the steps between may have kept their losses alone (harness::Stretch).
  std::optional<std::int64_t> last_same;
  // The first step from `step` on of which both have each tensor, and those that have other bytes there: of what differs, or else
  // parameters by their reduced gradients or their values.
  std::optional<std::int64_t> recorded;
  std::vector<std::string> tensors;
  std::int64_t tensors_compared = 0;
};

struct Training {
  harness::Evidence evidence;
  std::string folder;  // of the case, where its ranks left their last steps (step_ring.h)
};

// Nothing: the two have no step in common of which both told a loss or a digest.
[[nodiscard]] std::optional<Parting> find_parting(const std::string& label,
                                                  const Training& before,
                                                  const Training& now);

// A paragraph for each. Markdown.
[[nodiscard]] std::string partings_text(const std::vector<Parting>& partings);

}  // namespace reports
