// The table of codes: what a code means, what confirms it, what to do about it, its place in the order of causes, the outcome
// that it leads to, where in a step it speaks and who attests it. Everything that explains a code reads this table: `explain`,
// the next action of a finding, the choice of the finding that is told first, and docs/codes.md. Its rows are the YAML files
// beside this one, a file for each part of a run; make_tables.cpp compiles them in. Which checks give a code stands in the
// checks' own lists, and which faults expect it in scenarios/faults.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/outcome.h"
#include "nsa/base/names.h"

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
inline constexpr std::array kFamilyNames = {"process",
                                            "resume",
                                            "data",
                                            "route",
                                            "forward",
                                            "loss",
                                            "graph",
                                            "backward",
                                            "collective",
                                            "reduction",
                                            "update",
                                            "state",
                                            "progress",
                                            "memory",
                                            "machine"};
constexpr nsa::Names names_of(Family /*of*/) {
  return kFamilyNames;
}

// Where in a step a code speaks: that place is wrong. What comes later in the step is made of it.
enum class Node {
  machine,           // a card, a link, the program that was built
  process,           // one rank's process
  collective,        // one operation between ranks
  data,              // tokens and random numbers that enter the step
  weights,           // parameters and moments that enter the step
  stage,             // one operation of the forward
  loss,              // the loss, its scale and its share in the step
  backward,          // the graph that the backward follows, and what it recomputes
  local_gradient,    // of one rank, before the reduction
  reduced_gradient,  // after the reduction
  update,            // norm, clipping, learning rate and optimiser
  state,             // parameters and moments after the step
  memory             // what is kept, of no single step
};
inline constexpr std::array kNodeNames = {"machine",
                                          "process",
                                          "collective",
                                          "data",
                                          "weights",
                                          "stage",
                                          "loss",
                                          "backward",
                                          "local_gradient",
                                          "reduced_gradient",
                                          "update",
                                          "state",
                                          "memory"};
constexpr nsa::Names names_of(Node /*of*/) {
  return kNodeNames;
}

// How a code knows what it says.
enum class Witness {
  record,  // from recorded inputs: nothing earlier explains it, unless it is not finite or was overwritten
  end_to_end,  // from a twin, another rank, a curve or a floor: everything earlier explains it
  complaint  // an abort, a time-out or a wait that speaks of a peer: what the peer did explains it
};
inline constexpr std::array kWitnessNames = {"record", "end_to_end", "complaint"};
constexpr nsa::Names names_of(Witness /*of*/) {
  return kWitnessNames;
}

struct Code {
  std::string_view name;  // GRAD.MISSING
  Family family = Family::process;
  int place = 0;  // in the order of causes: of independent findings, the smaller one is told first
  Outcome outcome = Outcome::fail;  // of a case that begins with it
  Node node = Node::process;
  Witness known_from = Witness::record;
  std::string_view meaning;
  std::string_view confirmed_by;
  std::string_view next_action;
  std::string_view witness;  // who attests it, and what that shares with what is judged
};

// All codes, by family and place.
[[nodiscard]] std::span<const Code> all_codes();

// nullptr for a code that is not in the table.
[[nodiscard]] const Code* find_code(std::string_view name);

[[nodiscard]] std::vector<std::string> code_names();

[[nodiscard]] const char* name_of(Family family);     // "forward"
[[nodiscard]] const char* title_of(Family family);    // "Forward pass of the model"
[[nodiscard]] std::string title_of(Node node);        // "local gradient"
[[nodiscard]] const char* title_of(Witness witness);  // "a complaint about a peer"

}  // namespace harness
