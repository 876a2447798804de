// The table of experiments: one row for each thing that a failure may depend on. A row takes the thing away from a case
// (an option off, a seam back at `reference`, fewer layers) and says what it means when the failure stays or goes. A
// row changes nothing else; what was planted in the case is never read, changed or dropped. A new experiment is one row.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/bundle/failure.h"
#include "harness/scenario/case.h"

namespace harness {

struct Change {
  Scenario without;
  // The least case that has it, where that is smaller than the case itself: one layer more, those above it still gone.
  std::optional<Scenario> with = std::nullopt;
  std::string what = "";  // that is taken away, where its row does not say it
};

// What goes with the thing that a row takes away.
enum class Takes {
  only_it,        // a failure that goes with it depends on it
  also_the_draw,  // also the numbers that were drawn: a failure that goes depends on it where it goes in other draws too
  what_shows_it  // also what such a failure needs to be seen at all: one that goes is not explained by that
};

// The question whether other numbers fail alike.
inline constexpr const char* kDraw = "what this seed draws";

struct Experiment {
  const char* what;      // that is taken away, as a sentence calls it: "static_graph"
  const char* question;  // "Which layer?"
  const char* stays;     // what it means that the case fails alike without it
  Takes takes;
  double cost;                // of its run, in runs of the case itself
  std::string_view first_of;  // begins of the codes of which it is asked first: "CKPT. GRAD.DOUBLE"
  std::string_view only_of;   // begins of the codes of which it is asked at all; "": of every code
  // One change, several (one a seam), or none: the case does not have it.
  std::vector<Change> (*changes)(const Scenario& scenario, const Cause& symptom);
};

// In the order in which they are written.
[[nodiscard]] std::span<const Experiment> all_experiments();

// Whether `code` begins with one of the words of `begins`.
[[nodiscard]] bool begins_with_any(std::string_view code, std::string_view begins);

// "parallel.checkpoint.layers [0,1] -> []": every value in which two cases differ.
[[nodiscard]] std::string difference(const Scenario& before, const Scenario& after);

}  // namespace harness
