#include "harness/kinds/model_parts.h"

#include <algorithm>
#include <sys/resource.h>

#include "harness/worker/case_route.h"
#include "harness/worker/record/tensor_file.h"
#include "nsa/base/hash.h"
#include "nsa/train/autocast.h"
#include "nsa/train/precision.h"
#include "nsa/train/step_graph.h"

namespace harness {
namespace {

nsa::NsaLm build(const Session& session,
                 const std::map<std::string, std::string>& route,
                 nsa::Routes& routes) {
  const Scenario& scenario = session.the_case().scenario;
  const auto device = device_of(session);
  nsa::check_route(scenario.model, route, surroundings_of(scenario, device));
  torch::manual_seed(static_cast<std::uint64_t>(scenario.seed));
  nsa::NsaLm model(scenario.model, route, routes);
  model->to(device, nsa::dtype_of(scenario.training.precision));
  return model;
}

nsa::BatchShape batch_shape(const Scenario& scenario) {
  return {scenario.training.batch_size,
          scenario.training.seq_len,
          scenario.training.accumulate,
          scenario.model.vocab_size,
          scenario.training.data.replicated};
}

}  // namespace

torch::Device device_of(const Session& session) {
  const Scenario& scenario = session.the_case().scenario;
  const int rank = std::max(0, session.options().rank);  // the twin has none
  return nsa::torch_device(scenario.parallel.device, scenario.card_of(rank));
}

nsa::NsaLm make_model(Session& session, nsa::Routes& routes) {
  const auto resolved = route_of(session.the_case().scenario, device_of(session));
  write_choices(session, resolved);
  const bool captures = session.the_case().scenario.training.cuda_graph && !session.is_twin();
  if (captures) nsa::check_capturable(resolved.route);
  return build(session, resolved.route, routes);
}

nsa::NsaLm make_reference_model(const Session& session, nsa::Routes& routes) {
  return build(session, {}, routes);
}

std::unique_ptr<nsa::DataSource> make_source(const Scenario& scenario) {
  return nsa::make_data_source(scenario.training.data,
                               batch_shape(scenario),
                               scenario.seed,
                               static_cast<int>(scenario.parallel.ranks));
}

nsa::LossMask make_loss_mask(const Scenario& scenario) {
  return {scenario.training.data,
          batch_shape(scenario),
          scenario.seed,
          static_cast<int>(scenario.parallel.ranks)};
}

nsa::Documents make_documents(const Scenario& scenario) {
  return {scenario.training.data,
          batch_shape(scenario),
          scenario.seed,
          static_cast<int>(scenario.parallel.ranks)};
}

nsa::Dropout make_dropout(const Scenario& scenario) {
  return {scenario.model.dropout,
          batch_shape(scenario),
          scenario.seed,
          static_cast<int>(scenario.parallel.ranks)};
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

std::string optimizer_of(const Session& session) {
  const auto route = route_of(session.the_case().scenario, device_of(session)).route;
  const auto asked = route.find("optimizer");
  return asked == route.end() ? "reference" : asked->second;
}

torch::Tensor write_hash(Session& session,
                         std::int64_t step,
                         const std::string& name,
                         const torch::Tensor& parameter) {
  torch::Tensor value = parameter.detach().to(torch::kCPU).contiguous();
  session.channel().write(ParameterHash{step, name, nsa::hash_hex(bytes_of(value))});
  session.progress().worked();
  return value;
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
