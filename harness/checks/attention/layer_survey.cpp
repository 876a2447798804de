#include "harness/checks/attention/layer_survey.h"

#include "harness/checks/attention/arithmetic.h"
#include "harness/checks/attention/sample_rows.h"
#include "harness/checks/training/overflow.h"
#include "harness/scenario/constant_gates.h"
#include "nsa/base/error.h"

namespace harness::checks {
namespace {

bool is_gradient(const std::string& tensor) {
  return tensor == "dx" || tensor.rfind("g.w.", 0) == 0;
}

// Bytes against the twin's. Nothing to compare with is no difference; what is missing is said where
// it is judged.
template <typename Which>
bool differs(const Evidence& evidence, const LayerPlace& at, Which which) {
  ResultBuilder unsaid;
  const auto own = open_artefact(evidence, {at.rank, kLayer, at.step, at.rank, at.layer}, unsaid);
  const auto twin = open_artefact(evidence, {kTwin, kLayer, at.step, at.rank, at.layer}, unsaid);
  if (!own || !twin) return false;
  for (const auto& [name, view] : twin->tensors()) {
    if (!which(name)) continue;
    if (!own->contains(name) || !same_bytes(own->at(name), view)) return true;
  }
  return false;
}

// Fixed for a seed: a layer of a healthy case is as good as any other, but the same one each time.
LayerPlace drawn(const Evidence& evidence, int rank) {
  const Scenario& scenario = evidence.the_case.scenario;
  const std::uint64_t number = mixed(static_cast<std::uint64_t>(scenario.seed));
  const auto steps = static_cast<std::uint64_t>(scenario.training.steps);
  auto step = static_cast<std::int64_t>(1 + number / 1024 % steps);
  // A scaler's search for its scale is at the beginning: a later step has numbers to judge.
  const std::set<std::int64_t> overflowed = overflowed_steps(evidence);
  while (overflowed.count(step) > 0 && step < scenario.training.steps) ++step;
  return {
      rank, step, static_cast<int>(number % static_cast<std::uint64_t>(scenario.model.n_layers))};
}

LayerPlace picked(const Evidence& evidence, int rank) {
  const int layers = static_cast<int>(evidence.the_case.scenario.model.n_layers);
  for (std::int64_t step = 1; step <= evidence.the_case.scenario.training.steps; ++step) {
    for (int layer = 0; layer < layers; ++layer) {
      const LayerPlace at{rank, step, layer};
      if (differs(evidence, at, [](const std::string& name) { return name == "y"; })) return at;
    }
    for (int layer = layers - 1; layer >= 0; --layer) {
      if (differs(evidence, {rank, step, layer}, is_gradient)) return {rank, step, layer};
    }
  }
  return drawn(evidence, rank);
}

}  // namespace

bool runs_layers_alone(const Evidence& evidence) {
  return evidence.the_case.scenario.kind == "attention";
}

Look look_at(const Evidence& evidence, int rank) {
  const int layers = static_cast<int>(evidence.the_case.scenario.model.n_layers);
  Look look;
  if (runs_layers_alone(evidence)) {
    for (int layer = 0; layer < layers; ++layer) look.first.push_back({rank, 1, layer});
    return look;
  }
  look.first = {picked(evidence, rank)};
  // The same mistake, or another one in a gradient, may be in other layers too; each is judged by
  // its own record.
  for (int layer = 0; layer < layers; ++layer) {
    if (layer != look.first.front().layer) {
      look.then.push_back({rank, look.first.front().step, layer});
    }
  }
  return look;
}

std::string text_of(const LayerPlace& at) {
  return "layer " + std::to_string(at.layer) + " of " + process_name(at.rank) + ", step " +
         std::to_string(at.step);
}

ReadOptions read_options(const Evidence& evidence, int layer) {
  const Scenario& scenario = evidence.the_case.scenario;
  ReadOptions options;
  if (runs_layers_alone(evidence)) options.gate_override = constant_gates(scenario.attention.gate);
  options.seed =
      static_cast<std::uint64_t>(scenario.seed) * 1024 + static_cast<std::uint64_t>(layer);
  options.narrow_products = narrow_products_of(scenario.route);
  return options;
}

std::optional<LayerRecord> open_record(const Evidence& evidence,
                                       const LayerPlace& at,
                                       const std::string& artefact,
                                       ResultBuilder& result) {
  const auto file =
      open_artefact(evidence, {at.rank, artefact, at.step, at.rank, at.layer}, result);
  if (!file) return std::nullopt;
  try {
    return read_layer(*file, evidence.the_case.scenario.model, read_options(evidence, at.layer));
  } catch (const nsa::Error& error) {
    result.missing(text_of(at) + " cannot be judged: " + error.what());
    return std::nullopt;
  }
}

}  // namespace harness::checks
