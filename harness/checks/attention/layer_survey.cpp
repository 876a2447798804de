#include "harness/checks/attention/layer_survey.h"

#include "harness/checks/attention/arithmetic.h"
#include "harness/checks/attention/sample_rows.h"
#include "harness/checks/training/overflow.h"
#include "harness/scenario/constant_gates.h"
#include "nsa/base/error.h"

namespace harness::checks {
namespace {

bool is_compared(const std::string& tensor) {
  return tensor == "y" || tensor == "dx" || tensor.rfind("g.w.", 0) == 0;
}

// Bytes against the twin's. Nothing to compare with is no difference; what is missing is said where
// it is judged.
bool differs(const Evidence& evidence, const LayerPlace& at) {
  ResultBuilder unsaid;
  const auto own = open_artefact(evidence, {at.rank, kLayer, at.step, at.rank, at.layer}, unsaid);
  const auto twin = open_artefact(evidence, {kTwin, kLayer, at.step, at.rank, at.layer}, unsaid);
  if (!own || !twin) return false;
  for (const auto& [name, view] : twin->tensors()) {
    if (!is_compared(name)) continue;
    if (!own->contains(name) || !same_bytes(own->at(name), view)) return true;
  }
  return false;
}

// Fixed for a seed: a step of a healthy case is as good as any other, but the same one each time.
std::int64_t drawn_step(const Evidence& evidence) {
  const Scenario& scenario = evidence.the_case.scenario;
  const std::uint64_t number = mixed(static_cast<std::uint64_t>(scenario.seed));
  const auto steps = static_cast<std::uint64_t>(scenario.training.steps);
  auto step = static_cast<std::int64_t>(1 + number / 1024 % steps);
  // A scaler's search for its scale is at the beginning: a later step has numbers to judge.
  const std::set<std::int64_t> overflowed = overflowed_steps(evidence);
  while (overflowed.count(step) > 0 && step < scenario.training.steps) ++step;
  return step;
}

std::int64_t judged_step(const Evidence& evidence, int rank) {
  const Scenario& scenario = evidence.the_case.scenario;
  if (!scenario.trains() || scenario.training.steps == 1) return 1;
  for (std::int64_t step = 1; step <= scenario.training.steps; ++step) {
    for (int layer = 0; layer < static_cast<int>(scenario.model.n_layers); ++layer) {
      if (differs(evidence, {rank, step, layer})) return step;
    }
  }
  return drawn_step(evidence);
}

}  // namespace

bool runs_layers_alone(const Evidence& evidence) {
  return evidence.the_case.scenario.kind == "attention";
}

std::vector<LayerPlace> layers_to_judge(const Evidence& evidence, int rank) {
  const std::int64_t step = judged_step(evidence, rank);
  std::vector<LayerPlace> layers;
  for (int layer = 0; layer < static_cast<int>(evidence.the_case.scenario.model.n_layers);
       ++layer) {
    layers.push_back({rank, step, layer});
  }
  return layers;
}

std::string text_of(const LayerPlace& at) {
  return "layer " + std::to_string(at.layer) + " of " + process_name(at.rank) + ", step " +
         std::to_string(at.step);
}

ReadOptions read_options(const Evidence& evidence, int layer) {
  const Scenario& scenario = evidence.the_case.scenario;
  ReadOptions options;
  options.forward_only = scenario.kind == "decode";
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
