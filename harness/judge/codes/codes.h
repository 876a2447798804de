// The table of codes: what a code means, what confirms it, what to do about it, its place in the order of causes, the outcome
// that it leads to and who attests it. Everything that explains a code reads this table: `explain`, the next action of a
// finding, the choice of the finding that is told first, and docs/codes.md. Which checks give a code stands in the checks'
// own lists, and which faults expect it in scenarios/faults.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/outcome.h"

namespace harness {

// The part of a run that a code speaks of. Also what the edges of harness/judge/cause_edges.cpp are drawn between.
enum class Family {
  process,
  resume,
  data,
  route,
  forward,
  loss,
  graph,
  backward,
  collective,
  reduction,
  update,
  state,
  progress,
  memory,
  machine
};

struct CodePlace {
  std::string_view name;  // GRAD.MISSING
  Family family;
  int place;  // in the order of causes: of independent findings, the smaller one is told first
  Outcome outcome = Outcome::fail;  // of a case that begins with it
};
struct CodeWords {
  std::string_view meaning;
  std::string_view confirmed_by;
  std::string_view next_action;
  std::string_view witness;  // who attests it, and what that shares with what is judged
};
struct Code : CodePlace, CodeWords {};

// All codes, by family and place.
[[nodiscard]] const std::vector<Code>& all_codes();

// nullptr for a code that is not in the table.
[[nodiscard]] const Code* find_code(std::string_view name);

[[nodiscard]] std::vector<std::string> code_names();

[[nodiscard]] const char* name_of(Family family);   // "forward"
[[nodiscard]] const char* title_of(Family family);  // "Forward pass of the model"

// The rows of the table, a file each.
[[nodiscard]] std::span<const Code> codes_of_machine();
[[nodiscard]] std::span<const Code> codes_of_processes();
[[nodiscard]] std::span<const Code> codes_of_setup();  // resume, data, route
[[nodiscard]] std::span<const Code> codes_of_forward();
[[nodiscard]] std::span<const Code> codes_of_gradients();
[[nodiscard]] std::span<const Code> codes_of_ranks();  // collective, reduction, state
[[nodiscard]] std::span<const Code> codes_of_training();

}  // namespace harness
