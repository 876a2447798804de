#include "harness/kinds/model_parts.h"

#include <algorithm>
#include <sys/resource.h>

#include "nsa/train/autocast.h"
#include "nsa/train/precision.h"

namespace harness {
namespace {

nsa::NsaLm build(const Session& session,
                 const std::map<std::string, std::string>& route,
                 nsa::Routes& routes) {
  const Scenario& scenario = session.the_case().scenario;
  const nsa::Precision precision = scenario.training.precision;
  const auto device = device_of(session);
  const auto seams_in = nsa::autocasts(precision) ? torch::kBFloat16 : nsa::dtype_of(precision);
  nsa::check_route(scenario.model, route, {device, seams_in, scenario.kind == "decode"});
  torch::manual_seed(static_cast<std::uint64_t>(scenario.seed));
  nsa::NsaLm model(scenario.model, route, routes);
  model->to(device, nsa::dtype_of(precision));
  return model;
}

}  // namespace

torch::Device device_of(const Session& session) {
  const Scenario& scenario = session.the_case().scenario;
  const int rank = std::max(0, session.options().rank);  // the twin has none
  return nsa::torch_device(scenario.parallel.device, scenario.card_of(rank));
}

nsa::NsaLm make_model(const Session& session, nsa::Routes& routes) {
  return build(session, session.the_case().scenario.route, routes);
}

nsa::NsaLm make_reference_model(const Session& session, nsa::Routes& routes) {
  return build(session, {}, routes);
}

std::unique_ptr<nsa::DataSource> make_source(const Scenario& scenario) {
  const nsa::BatchShape shape{scenario.training.batch_size,
                              scenario.training.seq_len,
                              scenario.training.accumulate,
                              scenario.model.vocab_size};
  return nsa::make_data_source(
      scenario.training.data, shape, scenario.seed, static_cast<int>(scenario.parallel.ranks));
}

torch::Tensor logits_of(nsa::NsaLm& model,
                        const torch::Tensor& tokens_BS,
                        nsa::Precision precision) {
  if (!nsa::autocasts(precision)) return model->forward(tokens_BS);
  const nsa::AutocastScope autocast(tokens_BS.device().type(), true);
  return model->forward(tokens_BS);
}

nsa::NamedParameters named_parameters(nsa::NsaLm& model) {
  nsa::NamedParameters parameters;
  for (const auto& item : model->named_parameters()) {
    parameters.emplace_back(item.key(), item.value());
  }
  return parameters;
}

std::string optimizer_of(const Scenario& scenario) {
  const auto asked = scenario.route.find("optimizer");
  return asked == scenario.route.end() ? "reference" : asked->second;
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
