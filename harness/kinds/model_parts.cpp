#include "harness/kinds/model_parts.h"

#include <algorithm>
#include <sys/resource.h>

#include "nsa/train/precision.h"

namespace harness {
namespace {

nsa::NsaLm build(const Session& session,
                 const std::map<std::string, std::string>& route,
                 nsa::Routes& routes) {
  const Scenario& scenario = session.the_case().scenario;
  const nsa::Surroundings where{
      device_of(session), nsa::dtype_of(scenario.training.precision), scenario.kind == "decode"};
  nsa::check_route(scenario.model, route, where);
  torch::manual_seed(static_cast<std::uint64_t>(scenario.seed));
  nsa::NsaLm model(scenario.model, route, routes);
  model->to(where.device, where.dtype);
  return model;
}

}  // namespace

torch::Device device_of(const Session& session) {
  return nsa::torch_device(session.the_case().scenario.parallel.device,
                           std::max(0, session.options().rank));
}

nsa::NsaLm make_model(const Session& session, nsa::Routes& routes) {
  return build(session, session.the_case().scenario.route, routes);
}

nsa::NsaLm make_reference_model(const Session& session, nsa::Routes& routes) {
  return build(session, {}, routes);
}

nsa::NamedParameters named_parameters(nsa::NsaLm& model) {
  nsa::NamedParameters parameters;
  for (const auto& item : model->named_parameters()) {
    parameters.emplace_back(item.key(), item.value());
  }
  return parameters;
}

void write_routes(Session& session, const nsa::Routes& routes) {
  for (const nsa::RouteCount& count : routes.counts()) {
    session.channel().write(
        RouteUse{count.seam, count.layer, count.implementation, count.forward, count.backward});
  }
}

double peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024.0;
}

}  // namespace harness
