#include "harness/worker/case_route.h"

#include "nsa/train/precision.h"

namespace harness {

nsa::Surroundings surroundings_of(const Scenario& scenario, const torch::Device& device) {
  const nsa::Precision precision = scenario.training.precision;
  const bool autocasts = nsa::autocasts(precision);
  return {device,
          autocasts ? torch::kBFloat16 : nsa::dtype_of(precision),
          scenario.kind == "decode",
          autocasts};
}

nsa::ResolvedRoute route_of(const Scenario& scenario, const torch::Device& device) {
  return nsa::resolve_route(scenario.model, scenario.route, surroundings_of(scenario, device));
}

void write_choices(Session& session, const nsa::ResolvedRoute& resolved) {
  for (const nsa::Candidate& candidate : resolved.candidates) {
    session.channel().write(
        RouteChoice{candidate.seam, candidate.implementation, candidate.passed_over});
  }
}

}  // namespace harness
