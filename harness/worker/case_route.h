// The route of a case as its processes run it: what the scenario asks for, with every `auto` resolved (nsa/seams/automatic.h).
#pragma once

#include "harness/worker/session.h"
#include "nsa/seams/automatic.h"

namespace harness {

// Where the model of a case runs.
[[nodiscard]] nsa::Surroundings surroundings_of(const Scenario& scenario,
                                                const torch::Device& device);

// Throws: nsa::Error on names that there are not.
[[nodiscard]] nsa::ResolvedRoute route_of(const Scenario& scenario, const torch::Device& device);

// One row a candidate.
void write_choices(Session& session, const nsa::ResolvedRoute& resolved);

}  // namespace harness
